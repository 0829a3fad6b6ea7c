-- name: note_tasks
--
-- Notes that somebody changes tasks, before they are gone: a row for each action, and one for each
-- task.
--
--   $1 number  bigint, random; the rows for further actions have those behind it
--   $2 verb    text
--   $3 author  text
--   $4 reason  text, null: none
--   $5 names   integer: how many tasks a row names
--   $6 keys    bigint[]
--   $7 claim   bigint: only those that are owned under it; null: all
WITH changed AS MATERIALIZED (
    SELECT tasks.id, tasks.action,
           $1::bigint - 1 + dense_rank() OVER (ORDER BY tasks.action) AS number,
           row_number() OVER (PARTITION BY tasks.action ORDER BY tasks.id) AS place
    FROM stint.tasks
    WHERE tasks.key = ANY ($6::bigint[])
      AND ($7::bigint IS NULL
           OR (SELECT leased.claim FROM stint.leased WHERE leased.lo = tasks.key) = $7::bigint)
), noted AS (
    INSERT INTO stint.changes (number, items, verb, author, action, reason, names)
    SELECT changed.number, count(*), $2::text, $3::text, changed.action, $4::text,
           array_agg(changed.id ORDER BY changed.id) FILTER (WHERE changed.place <= $5::integer)
    FROM changed
    GROUP BY changed.number, changed.action
)
INSERT INTO stint.changed_tasks (number, id)
SELECT changed.number, changed.id FROM changed
