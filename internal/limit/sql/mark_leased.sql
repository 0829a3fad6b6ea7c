-- name: mark_leased
--
-- Makes tasks that were fetched before their actions had limits count towards these: sets the
-- action in those of the first $3 rows of leased behind the place $2 that lack it. Returns the
-- place of the last of these rows, null if there are none, and how many lacked it. Rows that
-- somebody is changing are passed over, so whoever wants all looks again until none lacks it.
--
--   $1 actions  text[]
--   $2 lo       bigint
--   $3 rows     integer
WITH page AS MATERIALIZED (
    SELECT leased.lo, leased.limited_action
    FROM stint.leased
    WHERE leased.lo > $2::bigint
    ORDER BY leased.lo
    LIMIT $3::integer
), lacking AS MATERIALIZED (
    -- The tasks of a row have the same action.
    SELECT page.lo, task.action
    FROM page
    CROSS JOIN LATERAL (
        SELECT tasks.action FROM stint.tasks WHERE tasks.key = page.lo OFFSET 0
    ) AS task
    WHERE page.limited_action IS NULL AND task.action = ANY ($1::text[])
), locked AS MATERIALIZED (
    SELECT lacking.action, leased.tid
    FROM lacking
    CROSS JOIN LATERAL (
        SELECT leased.ctid AS tid
        FROM stint.leased
        WHERE leased.lo = lacking.lo AND leased.limited_action IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS leased
), marked AS (
    UPDATE stint.leased
    SET limited_action = locked.action
    FROM locked
    WHERE leased.ctid = locked.tid
)
SELECT (SELECT max(page.lo) FROM page) AS last, (SELECT count(*) FROM lacking) AS lacking
