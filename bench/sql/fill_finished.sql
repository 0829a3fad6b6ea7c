-- Writes $1 blocks of 1,000 tasks each that were completed a thousand at a time: what
-- insert_tasks, own_tasks and return_tasks leave of them. Bodies have $2 bytes, IDs are in no
-- order.
WITH block AS MATERIALIZED (
    SELECT nextval('stint.blocks') << 10 AS lo, repeat('x', $2::integer - 21) AS rest
      FROM generate_series(1, $1::integer)
), defined AS (
    INSERT INTO stint.tasks (key, max_tries, priority, on_abort, post_result, id, action, body)
    SELECT task.key, 25, 0, 0, false, task.id, 'bench', convert_to(task.id || rest, 'UTF8')
      FROM (SELECT lo + n AS key, 'task-' || left(md5((lo + n)::text), 16) AS id, rest
              FROM block CROSS JOIN generate_series(0, 999) AS number (n) OFFSET 0) AS task
)
INSERT INTO stint.finished (lo, hi, claim, tries, cause, actor)
SELECT lo, lo + 999, lo, 1, 0, 'worker' FROM block
