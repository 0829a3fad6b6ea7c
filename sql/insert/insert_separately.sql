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
--   $12 cost       integer[], likewise: 1
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
