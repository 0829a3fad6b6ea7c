-- name: task_changes
--
-- Lists the changes of a task, the newest first, whether or not the task is still there.
--
--   $1 id         text
--   $2 before_at  timestamptz: the page begins behind the change with this time and number
--   $3 before     bigint
--   $4 most       integer
SELECT changes.number, changes.changed_at, changes.items, changes.others, changes.verb,
       changes.author, changes.action, changes.reason, changes.detail, changes.names
FROM stint.changed_tasks
CROSS JOIN LATERAL (
    SELECT changes.*
    FROM stint.changes
    WHERE changes.number = changed_tasks.number
    OFFSET 0 -- a fence: looked up by the index, whatever the statistics
) AS changes
WHERE changed_tasks.id = $1::text
  AND changes.changed_at <= $2::timestamptz
  AND (changes.changed_at < $2::timestamptz OR changes.number + 0 < $3::bigint)
ORDER BY changes.changed_at DESC, changes.number + 0 DESC
LIMIT $4::integer
