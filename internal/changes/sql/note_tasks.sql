-- name: note_tasks
--
-- Notes that somebody changes tasks, before they are gone: a row for each action, and one for each
-- task. Returns the numbers and the actions of the former.
--
--   $1 number  bigint, random; each action has one of its own, which comes of it
--   $2 verb    text
--   $3 author  text
--   $4 reason  text, null: none
--   $5 names   integer: how many tasks a row names
--   $6 keys    bigint[], sorted
--   $7 claim   bigint: only those that are owned under it; null: all
WITH changed AS MATERIALIZED (
    -- A hash, rather than the place of the action, for which all tasks would be sorted and
    -- numbered: that took as long as all of the rest.
    SELECT tasks.id, tasks.action,
           hashtextextended(tasks.action, $1::bigint) & 9223372036854775807 AS number
    FROM stint.tasks
    WHERE tasks.key = ANY ($6::bigint[])
      AND ($7::bigint IS NULL
           OR (SELECT leased.claim FROM stint.leased WHERE leased.lo = tasks.key) = $7::bigint)
), noted AS (
    INSERT INTO stint.changed_tasks (number, id)
    SELECT changed.number, changed.id FROM changed
)
INSERT INTO stint.changes (number, items, verb, author, action, reason, names)
SELECT changed.number, count(*), $2::text, $3::text, changed.action, $4::text,
       (array_agg(changed.id))[1:$5::integer]
FROM changed
GROUP BY changed.number, changed.action
RETURNING changes.number, changes.action
