-- name: list_ends
--
-- Returns the next ends of tasks behind a place, in the order of finished_at and the key, in the
-- form of get_tasks without bodies. None is missed that is ahead of one that is returned.
--
--   $1 from_at   timestamptz
--   $2 from_key  bigint
--   $3 actions   text[], or null: all
--   $4 bound     timestamptz: all ends before it are visible, or will never be
--   $5 looked    integer: how many ends to look at
--   $6 most      integer: a longer result is left out, and not read
--   $7 bytes     bigint: of results and texts, about
--
-- A row may become visible later than another one with a later finished_at. But a transaction locks
-- the table before it takes the time for finished_at, and holds the lock until all can see its
-- rows. So if this statement finds that nobody holds it, the next one sees all ends from before the
-- time of this one; and if some do, so does one behind a statement that finds that those are gone.
--
-- Each row begins with the time; who holds the lock, as far as others than the caller see it;
-- whether there are ends at the bound or behind it, which are not shown yet; and until when tasks
-- were pruned. With each end come its key, how many ends were looked at, whether it is the last of
-- these, whether it is wanted, and whether its result was left out. The last that was looked at
-- comes in any case. If there is none, there is one row with an empty ID.
WITH looked AS MATERIALIZED (
    SELECT span.finished_at, task.key, span.tries, span.cause, span.actor, span.owned_at,
           span.status,
           CASE WHEN octet_length(span.result) <= $6::integer THEN span.result END AS result,
           octet_length(span.result) > $6::integer IS true AS big
    FROM (
        SELECT ended.*, sum(ended.hi - ended.lo + 1) OVER up_to_here AS tasks
        FROM (
            -- Each part goes along an index of its own. The span that the place is in has only the
            -- keys above it left; it begins in the same block.
            (SELECT finished.finished_at, finished.tries, finished.cause, finished.actor,
                    finished.owned_at, finished.status, finished.result, finished.hi,
                    CASE WHEN finished.finished_at = $1::timestamptz
                         THEN greatest(finished.lo, $2::bigint + 1)
                         ELSE finished.lo
                    END AS lo
             FROM stint.finished
             WHERE finished.cause = 0 /* completed */
               AND (finished.finished_at, finished.lo)
                   OPERATOR(pg_catalog.>=) ($1::timestamptz, $2::bigint >> 10 << 10)
               AND finished.finished_at < $4::timestamptz
               AND (finished.finished_at > $1::timestamptz OR finished.hi > $2::bigint)
             ORDER BY finished.finished_at, finished.lo
             LIMIT $5::integer)
            UNION ALL
            (SELECT finished.finished_at, finished.tries, finished.cause, finished.actor,
                    finished.owned_at, finished.status, finished.result, finished.hi,
                    CASE WHEN finished.finished_at = $1::timestamptz
                         THEN greatest(finished.lo, $2::bigint + 1)
                         ELSE finished.lo
                    END AS lo
             FROM stint.finished
             WHERE finished.cause <> 0 /* completed */
               AND (finished.finished_at, finished.lo)
                   OPERATOR(pg_catalog.>=) ($1::timestamptz, $2::bigint >> 10 << 10)
               AND finished.finished_at < $4::timestamptz
               AND (finished.finished_at > $1::timestamptz OR finished.hi > $2::bigint)
             ORDER BY finished.finished_at, finished.lo
             LIMIT $5::integer)
        ) AS ended
        WINDOW up_to_here AS (ORDER BY ended.finished_at, ended.lo ROWS UNBOUNDED PRECEDING)
    ) AS span
    CROSS JOIN LATERAL generate_series(span.lo, span.hi) AS task (key)
    WHERE span.tasks - (span.hi - span.lo + 1) < $5::integer
    ORDER BY span.finished_at, task.key
    LIMIT $5::integer
), page AS MATERIALIZED (
    SELECT judged.*,
           sum(CASE WHEN judged.wanted
                    THEN coalesce(octet_length(judged.result), 0)
                         + coalesce(octet_length(judged.status), 0)
                         + coalesce(octet_length(judged.headers), 0)
                    ELSE 0
               END) OVER (ORDER BY judged.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
               AS bytes
    FROM (
        -- The definition of a replaced task is gone.
        SELECT looked.*, known.*, row_number() OVER (ORDER BY looked.finished_at, looked.key)
                   AS place,
               (known.id IS NOT NULL
                AND ($3::text[] IS NULL OR known.action = ANY ($3::text[]))) AS wanted
        FROM looked
        LEFT JOIN LATERAL (
            SELECT tasks.id, tasks.action, tasks.priority, tasks.max_tries, tasks.deadline,
                   tasks.on_abort, tasks.post_result, tasks.inserted_at,
                   -- include later_columns: of=tasks
            FROM stint.tasks
            WHERE tasks.key = looked.key
            OFFSET 0
        ) AS known ON true
    ) AS judged
)
SELECT coalesce(page.id, ''), coalesce(page.action, ''), NULL::bytea AS body,
       coalesce(page.priority, 0::smallint), coalesce(page.max_tries, 0), page.deadline,
       coalesce(page.on_abort, 0::smallint), coalesce(page.post_result, false),
       coalesce(page.inserted_at, one.at), (10 + coalesce(page.cause, 0::smallint))::smallint,
       coalesce(page.tries, 0), page.actor, page.finished_at AS until,
       page.owned_at, page.status, NULL::real AS progress, page.result,
       -- include later_columns: of=page
       , one.at, one.writers, one.ahead, one.pruned_to, one.looked, page.key,
       page.place = one.looked AS last, page.wanted IS true AS wanted, page.big IS true AS big
FROM (
    SELECT statement_timestamp() AS at,
           -- A transaction that is prepared loses its virtual number for one that begins with -1.
           ARRAY(
               SELECT locks.virtualtransaction
               FROM pg_locks AS locks
               WHERE locks.locktype = 'relation' AND locks.granted
                 AND locks.relation = 'stint.finished'::regclass
                 AND locks.database = (SELECT databases.oid
                                       FROM pg_database AS databases
                                       WHERE databases.datname = current_database())
                 AND locks.mode = 'RowExclusiveLock'
           ) AS writers,
           (SELECT true
            FROM stint.finished
            WHERE finished.finished_at >= $4::timestamptz AND finished.cause = 0 /* completed */
            LIMIT 1) IS NOT NULL
           OR (SELECT true
               FROM stint.finished
               WHERE finished.finished_at >= $4::timestamptz AND finished.cause <> 0 /* completed */
               LIMIT 1) IS NOT NULL AS ahead,
           (SELECT pruning.pruned_to FROM stint.pruning) AS pruned_to,
           (SELECT count(*) FROM looked) AS looked
) AS one
LEFT JOIN page ON (page.wanted OR page.place = one.looked)
                  AND coalesce(page.bytes, 0) < $7::bigint
ORDER BY page.place
