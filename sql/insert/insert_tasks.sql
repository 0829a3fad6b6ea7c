-- name: insert_task
--
-- Inserts a task that is ready at once and waits for nothing. It does what insert_tasks does, for
-- the commonest case, in four fifths of its time from the call to the commit.
--
--   $1 id           text
--   $2 action       text
--   $3 body         bytea
--   $4 priority     smallint
--   $5 max_tries    integer
--   $6 deadline     timestamptz, null: none
--   $7 on_abort     smallint
--   $8 post_result  boolean
--   $9 key          bigint
--   $10 limit_key   text, null: none
--   $11 headers     text, an object of JSON, null: none
--   $12 cost        integer, null: 1
WITH defined AS (
    INSERT INTO stint.tasks
        (key, id, action, body, priority, max_tries, deadline, on_abort, post_result,
         limit_key, headers, cost)
    VALUES ($9::bigint, $1::text, $2::text, $3::bytea, $4::smallint, $5::integer,
            $6::timestamptz, $7::smallint, $8::boolean, $10::text,
            $11::text::jsonb, $12::integer)
), limited AS (
    INSERT INTO stint.deadlines (deadline, key)
    SELECT $6::timestamptz, $9::bigint
    WHERE $6::timestamptz IS NOT NULL
)
INSERT INTO stint.ready (lo, hi, action, priority, deadline, tries, limit_key)
VALUES ($9::bigint, $9::bigint, $2::text, $4::smallint, $6::timestamptz, 0,
        $10::text)

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
--   $14 cost        integer[], likewise: 1
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

-- name: insert_separately
--
-- Inserts tasks of several callers, which are ready at once and have nothing to do with each other.
-- A task whose ID is taken is left out. Returns the spans of the others. Element i of each array
-- belongs to task i.
--
--   $1 id           text[]
--   $2 action       text[]
--   $3 body         bytea[]
--   $4 priority     smallint[]
--   $5 max_tries    integer[]
--   $6 deadline     timestamptz[], null elements: none
--   $7 on_abort     smallint[]
--   $8 post_result  boolean[]
--   $9 key          bigint[]
--   $10 limit_key   text[], null elements, or null: none
--   $11 headers     text[], objects of JSON, null elements, or null: none
--   $12 cost        integer[], likewise: 1
WITH defined AS (
    INSERT INTO stint.tasks
        (key, id, action, body, priority, max_tries, deadline, on_abort, post_result,
         limit_key, headers, cost)
    SELECT task.key, task.id, task.action, task.body, task.priority, task.max_tries,
           task.deadline, task.on_abort, task.post_result, task.limit_key,
           task.headers::jsonb, task.cost
    FROM unnest(
        $1::text[], $2::text[], $3::bytea[], $4::smallint[], $5::integer[], $6::timestamptz[],
        $7::smallint[], $8::boolean[], $9::bigint[], $10::text[], $11::text[],
        $12::integer[]
    ) AS task (
        id, action, body, priority, max_tries, deadline, on_abort, post_result, key, limit_key,
        headers, cost
    )
    ON CONFLICT (id) DO NOTHING
    RETURNING key, action, priority, deadline, limit_key
), limited AS (
    INSERT INTO stint.deadlines (deadline, key)
    SELECT defined.deadline, defined.key
    FROM defined
    WHERE defined.deadline IS NOT NULL
)
-- Tasks that are alike and have consecutive keys become spans, of 16 at most so that several owners
-- find some. A task with a deadline is alone in its span. A span has a limit_key if all of its
-- tasks have that one.
INSERT INTO stint.ready (lo, hi, action, priority, deadline, tries, limit_key)
SELECT min(alike.key), max(alike.key), alike.action, alike.priority, alike.deadline, 0,
       CASE WHEN count(alike.limit_key) = count(*)
             AND min(alike.limit_key) = max(alike.limit_key)
            THEN min(alike.limit_key)
       END
FROM (
    SELECT defined.*,
           CASE WHEN defined.deadline IS NULL
                THEN defined.key - row_number() OVER (
                    PARTITION BY defined.key >> 4, defined.action, defined.priority,
                                 defined.deadline IS NULL
                    ORDER BY defined.key)
                ELSE defined.key
           END AS island
    FROM defined
) AS alike
GROUP BY alike.key >> 4, alike.island, alike.action, alike.priority, alike.deadline
ORDER BY min(alike.key)
RETURNING ready.lo, ready.hi
