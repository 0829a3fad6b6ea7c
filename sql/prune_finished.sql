-- name: prune_finished
--
-- Deletes about $4 finished tasks that are past their retention (R18), definitions and edges
-- included, but none whose result somebody may ask for yet: its dependents have completed, and
-- spontaneous ones, which pass the question on, have been pruned themselves. So have aborted ones,
-- which may be retried.
--
--   $1 completed_age    interval, null: keep for ever
--   $2 aborted_age      interval, null: keep for ever
--   $3 post_result_age  interval, the least for a task that may be waited for
--   $4 tasks            integer
--   $5 spans            integer: how many to lock of those that may make up so many tasks
--
-- Tells how many spans, and how many tasks in them.
--
-- finished_age is a block-range index: it finds the old pages, so this statement alone runs with
-- the planner's own choice of plans. Tasks in one span end alike, and one that posts its result is
-- alone, so the first one's definition tells of all. A replaced task (5) has left its definition to
-- its successor, and may be waited for.
WITH old AS MATERIALIZED (
    SELECT finished.lo, finished.hi
    FROM stint.finished
    LEFT JOIN stint.tasks AS task ON task.key = finished.lo
    WHERE finished.finished_at <= statement_timestamp() - least($1::interval, $2::interval)
      AND finished.finished_at <= statement_timestamp()
          - greatest(CASE finished.cause WHEN 0 THEN $1::interval ELSE $2::interval END,
                     CASE WHEN task.post_result OR finished.cause = 5 THEN $3::interval END)
      AND CASE finished.cause WHEN 0 THEN $1::interval ELSE $2::interval END IS NOT NULL
      AND NOT EXISTS (
          SELECT
          FROM stint.edges
          JOIN stint.tasks AS dependent ON dependent.key = edges.run
          WHERE edges.after BETWEEN finished.lo AND finished.hi
            AND (dependent.action = 'stint.Spontaneous'
                 OR NOT EXISTS (
                     SELECT
                     FROM stint.finished AS ended
                     WHERE ended.lo BETWEEN edges.run >> 10 << 10 AND edges.run
                       AND ended.hi >= edges.run AND ended.cause = 0
                 ))
      )
    LIMIT $5::integer
    FOR UPDATE OF finished SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT counted.lo, counted.hi
    FROM (
        SELECT old.lo, old.hi,
               sum(old.hi - old.lo + 1) OVER (ORDER BY old.lo) - (old.hi - old.lo + 1) AS before
        FROM old
    ) AS counted
    WHERE counted.before < $4::integer
), pruned AS MATERIALIZED (
    SELECT span.key
    FROM chosen
    CROSS JOIN LATERAL generate_series(chosen.lo, chosen.hi) AS span (key)
), definition AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY (ARRAY(SELECT pruned.key FROM pruned))
), outgoing AS (
    DELETE FROM stint.edges
    WHERE edges.after = ANY (ARRAY(SELECT pruned.key FROM pruned))
), incoming AS (
    DELETE FROM stint.edges
    WHERE edges.run = ANY (ARRAY(SELECT pruned.key FROM pruned))
), joined AS (
    DELETE FROM stint.joined
    WHERE joined.key = ANY (ARRAY(SELECT pruned.key FROM pruned))
), gone AS (
    DELETE FROM stint.finished
    WHERE finished.lo = ANY (ARRAY(SELECT chosen.lo FROM chosen))
    RETURNING finished.lo, finished.hi
)
SELECT count(*), coalesce(sum(gone.hi - gone.lo + 1), 0)::bigint FROM gone
