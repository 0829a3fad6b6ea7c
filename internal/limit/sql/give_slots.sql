-- name: give_slots
--
-- Makes tasks that were fetched before their actions had limits per key count towards these:
-- gives slots to those that have a key and no slot, among about the first $4 tasks, in $3 rows of
-- leased at most, behind the place $2. Returns the place of the last of these rows, null if there
-- are none, and how many tasks lacked a slot. A slot that somebody else takes at this moment is not
-- given, so whoever wants all looks again until none lacks one.
--
--   $1 actions  text[]
--   $2 lo       bigint
--   $3 rows     integer
--   $4 tasks    integer
WITH page AS MATERIALIZED (
    SELECT summed.lo, summed.hi, summed.claim
    FROM (
        SELECT row.lo, row.hi, row.claim,
               sum(row.hi - row.lo + 1) OVER (ORDER BY row.lo) - (row.hi - row.lo + 1) AS before
        FROM (
            SELECT leased.lo, leased.hi, leased.claim
            FROM stint.leased
            WHERE leased.lo > $2::bigint
            ORDER BY leased.lo
            LIMIT $3::integer
        ) AS row
    ) AS summed
    WHERE summed.before < $4::integer
), span AS MATERIALIZED (
    -- The tasks of a row have the same action.
    SELECT page.*, task.action
    FROM page
    CROSS JOIN LATERAL (
        SELECT tasks.action FROM stint.tasks WHERE tasks.key = page.lo OFFSET 0
    ) AS task
    WHERE task.action = ANY ($1::text[])
), task AS MATERIALIZED (
    SELECT span.action, named.limit_key, named.key, span.claim
    FROM span
    CROSS JOIN LATERAL (
        SELECT tasks.key, tasks.limit_key
        FROM stint.tasks
        WHERE tasks.key BETWEEN span.lo AND span.hi
        OFFSET 0
    ) AS named
    WHERE named.limit_key IS NOT NULL
), lacking AS MATERIALIZED (
    -- The slots of each key are read once, however many of its tasks are here.
    SELECT task.action, task.limit_key, task.key, task.claim
    FROM task
    EXCEPT
    SELECT named.action, named.limit_key, slot.key, slot.claim
    FROM (SELECT DISTINCT task.action, task.limit_key FROM task) AS named
    CROSS JOIN LATERAL (
        SELECT slots.key, slots.claim
        FROM stint.slots
        WHERE slots.action = named.action AND slots.limit_key = named.limit_key
        OFFSET 0
    ) AS slot
), given AS (
    -- Behind all slots of the key, since a slot whose task is not owned any more may be about to be
    -- taken. The order keeps two of these from a deadlock.
    INSERT INTO stint.slots (action, limit_key, slot, key, claim)
    SELECT numbered.action, numbered.limit_key, numbered.slot, numbered.key, numbered.claim
    FROM (
        SELECT lacking.*,
               coalesce((SELECT slots.slot
                         FROM stint.slots
                         WHERE slots.action = lacking.action
                           AND slots.limit_key = lacking.limit_key
                         ORDER BY slots.action DESC, slots.limit_key DESC, slots.slot DESC
                         LIMIT 1), -1)
                   + row_number() OVER (
                       PARTITION BY lacking.action, lacking.limit_key ORDER BY lacking.key)
                   AS slot
        FROM lacking
    ) AS numbered
    ORDER BY numbered.action, numbered.limit_key, numbered.slot
    ON CONFLICT (action, limit_key, slot) DO NOTHING
)
SELECT (SELECT max(page.lo) FROM page) AS last, (SELECT count(*) FROM lacking) AS lacking
