-- name: list_tasks
--
-- Returns those of the tasks with keys $1 that pass a filter, $11 of them at most, in the form of
-- get_tasks without bodies and results, followed by the place of the key in $1.
--
--   $1 keys       bigint[]
--   $2 actions    text[], or null: all
--   $3 states     smallint[], or null: all
--   $4 actor      text, or null: all
--   $5 min_age    interval, or null
--   $6 max_age    interval, or null
--   $7 prefix     text: how IDs begin, or null: all
--   $8 limit_key  text, or null: all
--   $9 headers    text: an object of JSON whose pairs the task has, or null: all
--   $10 status    text: a part of the status in any letter case, or null: all
--   $11 tasks     integer
SELECT
       -- include task_columns: body=NULL::bytea; status=task.status; result=NULL::bytea
       , named.place
FROM unnest($1::bigint[]) WITH ORDINALITY AS named (key, place)
CROSS JOIN LATERAL (
    SELECT tasks.id, tasks.action, tasks.inserted_at, tasks.limit_key, tasks.headers
    FROM stint.tasks
    WHERE tasks.key = named.key
    OFFSET 0
) AS known
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.key = named.key OFFSET 0
) AS task
WHERE ($2::text[] IS NULL OR known.action = ANY ($2::text[]))
  AND ($3::smallint[] IS NULL OR task.state = ANY ($3::smallint[]))
  AND ($4::text IS NULL OR task.actor = $4::text)
  AND ($5::interval IS NULL OR known.inserted_at <= statement_timestamp() - $5::interval)
  AND ($6::interval IS NULL OR known.inserted_at >= statement_timestamp() - $6::interval)
  AND ($7::text IS NULL OR starts_with(known.id, $7::text))
  AND ($8::text IS NULL OR known.limit_key = $8::text)
  AND ($9::text IS NULL OR known.headers OPERATOR(pg_catalog.@>) $9::text::jsonb)
  AND ($10::text IS NULL OR strpos(lower(task.status), lower($10::text)) > 0)
ORDER BY named.place
LIMIT $11::integer
