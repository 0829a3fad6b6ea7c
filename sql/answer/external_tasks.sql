-- name: external_tasks
--
-- Returns the tasks with these IDs, in no particular order, whether each is ready or has finished,
-- whether its deadline has passed, and the hash of the key that its answer must come with, if it
-- has one. IDs that no task has are left out.
--
--   $1 ids  text[]
SELECT task.key, task.id, task.action, task.post_result,
       coalesce(
           (SELECT span.hi >= task.key
            FROM (
                -- include span_of_key: table=ready; key=task.key; columns=ready.hi
            ) AS span),
           false
       ) AS ready,
       coalesce(
           (SELECT span.hi >= task.key
            FROM (
                -- include span_of_key: table=finished; key=task.key; columns=finished.hi
            ) AS span),
           false
       ) AS finished,
       coalesce(task.deadline <= statement_timestamp(), false) AS overdue,
       (SELECT answer_keys.hash FROM stint.answer_keys WHERE answer_keys.key = task.key) AS hash
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id, tasks.action, tasks.post_result, tasks.deadline
    FROM stint.tasks
    WHERE tasks.id = named.id
    OFFSET 0
) AS task
