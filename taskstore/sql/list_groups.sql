-- name: list_groups
--
-- Returns the names of the groups that have tasks, in order. Each is one look-up in the index, from
-- the name before it, however many tasks the groups have.
WITH RECURSIVE named (group_name) AS (
    SELECT ''::text COLLATE pg_catalog."C"
    UNION ALL
    SELECT next.group_name
    FROM named
    CROSS JOIN LATERAL (
        SELECT task.group_name
        FROM stint.taskstore_tasks AS task
        WHERE task.group_name > named.group_name
        ORDER BY task.group_name
        LIMIT 1
    ) AS next
)
SELECT named.group_name FROM named WHERE named.group_name <> '' ORDER BY named.group_name
