-- name: insert_tasks
--
-- Inserts a few tasks in one round trip; large batches are copied instead (insert_copy.go). An ID
-- that is taken makes it fail by tasks_id_key. Element i of each array belongs to task i.
--
--   $1 id           text[]
--   $2 action       text[]
--   $3 body         bytea[]
--   $4 priority     smallint[]
--   $5 max_tries    integer[]
--   $6 not_before   timestamptz[], null elements: at once
--   $7 deadline     timestamptz[], null elements: none
--   $8 on_abort     smallint[]
--   $9 post_result  boolean[]
--   $10 key         bigint[]
--   $11 waits       boolean[]: insert_network inserts what the task waits for
--   $12 limit_key   text[], null elements, or null: none
--   $13 headers     text[], objects of JSON, null elements, or null: none
--   $14 cost       integer[], likewise: 1
WITH given AS MATERIALIZED (
    SELECT task.*
    FROM unnest(
        $1::text[], $2::text[], $3::bytea[], $4::smallint[], $5::integer[],
        $6::timestamptz[], $7::timestamptz[], $8::smallint[], $9::boolean[],
        $10::bigint[], $11::boolean[], $12::text[], $13::text[], $14::integer[]
    ) AS task (
        id, action, body, priority, max_tries,
        not_before, deadline, on_abort, post_result, key, waits,
        limit_key, headers, cost
    )
), defined AS (
    INSERT INTO stint.tasks
        (key, id, action, body, priority, max_tries, deadline, on_abort, post_result,
         limit_key, headers, cost)
    SELECT key, id, action, body, priority, max_tries, deadline, on_abort, post_result,
           limit_key, headers::jsonb, cost
    FROM given
), limited AS (
    INSERT INTO stint.deadlines (deadline, key)
    SELECT deadline, key
    FROM given
    WHERE deadline IS NOT NULL
), later AS (
    INSERT INTO stint.scheduled (key, not_before, tries)
    SELECT key, not_before, 0
    FROM given
    WHERE not_before > statement_timestamp() AND NOT waits
)
-- Each task is a span of its own: few tasks are shared out best one by one.
INSERT INTO stint.ready (lo, hi, action, priority, deadline, tries, limit_key)
SELECT key, key, action, priority, deadline, 0, limit_key
FROM given
WHERE (not_before IS NULL OR not_before <= statement_timestamp()) AND NOT waits
