-- name: note_tasks
--
-- Notes that somebody has changed tasks, before they are gone: a row for each action, and one for
-- each task. The first row is told how many others changed with them.
--
--   $1 number  bigint, random; the rows for further actions have those behind it
--   $2 verb    text
--   $3 author  text
--   $4 reason  text, null: none
--   $5 names   integer: how many tasks a row names
--   $6 keys    bigint[]
--   $7 others  integer
WITH changed AS MATERIALIZED (
    SELECT tasks.id, tasks.action,
           $1::bigint - 1 + dense_rank() OVER (ORDER BY tasks.action) AS number,
           row_number() OVER (PARTITION BY tasks.action ORDER BY tasks.id) AS place
    FROM stint.tasks
    WHERE tasks.key = ANY ($6::bigint[])
), noted AS (
    INSERT INTO stint.changes (number, items, others, verb, author, action, reason, names)
    SELECT changed.number, count(*),
           CASE WHEN changed.number = $1::bigint THEN $7::integer ELSE 0 END,
           $2::text, $3::text, changed.action, $4::text,
           array_agg(changed.id ORDER BY changed.id) FILTER (WHERE changed.place <= $5::integer)
    FROM changed
    GROUP BY changed.number, changed.action
)
INSERT INTO stint.changed_tasks (number, id)
SELECT changed.number, changed.id FROM changed
