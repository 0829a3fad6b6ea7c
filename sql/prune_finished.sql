-- name: prune_finished
--
-- Deletes up to $4 finished tasks that are past their retention (R18), definitions and edges
-- included, but none whose result somebody may ask for yet: its dependents have finished, and
-- spontaneous ones, which pass the question on, have been pruned themselves.
--
--   $1 completed_age    interval, null: keep for ever
--   $2 aborted_age      interval, null: keep for ever
--   $3 post_result_age  interval, the least for a task that may be waited for
--   $4 tasks            integer
--
-- finished_age is a block-range index: it finds the old pages, so this statement alone runs with
-- the planner's own choice of plans. A replaced task (5) has left its definition to its successor, and
-- may be waited for.
WITH old AS MATERIALIZED (
    SELECT finished.key
    FROM stint.finished
    LEFT JOIN stint.tasks AS task ON task.key = finished.key
    WHERE finished.finished_at <= statement_timestamp() - least($1::interval, $2::interval)
      AND finished.finished_at <= statement_timestamp()
          - greatest(CASE finished.cause WHEN 0 THEN $1::interval ELSE $2::interval END,
                     CASE WHEN task.post_result OR finished.cause = 5 THEN $3::interval END)
      AND CASE finished.cause WHEN 0 THEN $1::interval ELSE $2::interval END IS NOT NULL
      AND NOT EXISTS (
          SELECT
          FROM stint.edges
          JOIN stint.tasks AS dependent ON dependent.key = edges.run
          WHERE edges.after = finished.key
            AND (dependent.action = 'stint.Spontaneous'
                 OR NOT EXISTS (
                     SELECT FROM stint.finished AS ended WHERE ended.key = edges.run
                 ))
      )
    LIMIT $4::integer
    FOR UPDATE OF finished SKIP LOCKED
), definition AS (
    DELETE FROM stint.tasks
    WHERE tasks.key = ANY (ARRAY(SELECT old.key FROM old))
), outgoing AS (
    DELETE FROM stint.edges
    WHERE edges.after = ANY (ARRAY(SELECT old.key FROM old))
), incoming AS (
    DELETE FROM stint.edges
    WHERE edges.run = ANY (ARRAY(SELECT old.key FROM old))
), joined AS (
    DELETE FROM stint.joined
    WHERE joined.key = ANY (ARRAY(SELECT old.key FROM old))
)
DELETE FROM stint.finished
WHERE finished.key = ANY (ARRAY(SELECT old.key FROM old))
