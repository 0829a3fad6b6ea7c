-- name: list_finished
--
-- Returns the first $4 tasks behind the place $2, $3 that ended in some way, the newest first, in
-- the form of list_ids.
--
--   $1 how          text: completed, aborted or skipped
--   $2 finished_at  timestamptz
--   $3 key          bigint
--   $4 tasks        integer
SELECT task.key, span.finished_at AS at, NULL::bigint AS rank, NULL::text AS id
FROM (
    SELECT newest.*, sum(newest.hi - newest.lo + 1) OVER up_to_here AS tasks
    FROM (
        -- The span that the place is in has only the keys below it left.
        SELECT ended.finished_at, ended.lo,
               CASE WHEN ended.finished_at = $2::timestamptz THEN least(ended.hi, $3::bigint - 1)
                    ELSE ended.hi
               END AS hi
        FROM (
            -- Each part goes along an index of its own, and all but one of them are empty. The
            -- skipped tasks are in the index of the aborted ones, and those of the other kind are
            -- passed over.
            (SELECT finished.finished_at, finished.lo, finished.hi
             FROM stint.finished
             WHERE $1::text = 'completed' AND finished.cause = 0 /* completed */
               AND (finished.finished_at, finished.lo)
                   OPERATOR(pg_catalog.<) ($2::timestamptz, $3::bigint)
             ORDER BY finished.finished_at DESC, finished.lo DESC
             LIMIT $4::integer)
            UNION ALL
            (SELECT finished.finished_at, finished.lo, finished.hi
             FROM stint.finished
             WHERE $1::text = 'aborted' AND finished.cause <> 0 /* completed */
               AND finished.cause <> 8 /* skipped */
               AND (finished.finished_at, finished.lo)
                   OPERATOR(pg_catalog.<) ($2::timestamptz, $3::bigint)
             ORDER BY finished.finished_at DESC, finished.lo DESC
             LIMIT $4::integer)
            UNION ALL
            (SELECT finished.finished_at, finished.lo, finished.hi
             FROM stint.finished
             WHERE $1::text = 'skipped' AND finished.cause = 8 /* skipped */
               AND (finished.finished_at, finished.lo)
                   OPERATOR(pg_catalog.<) ($2::timestamptz, $3::bigint)
             ORDER BY finished.finished_at DESC, finished.lo DESC
             LIMIT $4::integer)
        ) AS ended
    ) AS newest
    WINDOW up_to_here AS (
        ORDER BY newest.finished_at DESC, newest.lo DESC ROWS UNBOUNDED PRECEDING
    )
) AS span
CROSS JOIN LATERAL generate_series(span.lo, span.hi) AS task (key)
WHERE span.tasks - (span.hi - span.lo + 1) < $4::integer -- the other spans are behind the last task
ORDER BY span.finished_at DESC, task.key DESC
LIMIT $4::integer
