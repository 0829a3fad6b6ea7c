-- name: insert_debounced
--
-- Inserts a task as insert_tasks does, one that may stand for earlier calls, and may take the place
-- of an older task in the queue.
--
--   $1 id            text
--   $2 action        text
--   $3 body          bytea
--   $4 priority      smallint
--   $5 max_tries     integer
--   $6 not_before    timestamptz, null: at once
--   $7 deadline      timestamptz, null: none
--   $8 on_abort      smallint
--   $9 post_result   boolean
--   $10 key          bigint
--   $11 waits        boolean: insert_network inserts what the task waits for
--   $12 limit_key    text, null: none
--   $13 inserted_at  timestamptz: the first of the calls
--   $14 position     bigint, null: at the end of the queue
--   $15 headers      text, an object of JSON, null: none
--   $16 cost        integer, null: 1
WITH defined AS (
    INSERT INTO stint.tasks
        (key, inserted_at, id, action, body, priority, max_tries, deadline, on_abort, post_result,
         limit_key, headers, cost)
    VALUES ($10::bigint, $13::timestamptz, $1::text, $2::text, $3::bytea, $4::smallint,
            $5::integer, $7::timestamptz, $8::smallint, $9::boolean, $12::text,
            $15::text::jsonb, $16::integer)
), limited AS (
    INSERT INTO stint.deadlines (deadline, key)
    SELECT $7::timestamptz, $10::bigint
    WHERE $7::timestamptz IS NOT NULL
), later AS (
    INSERT INTO stint.scheduled (key, not_before, tries)
    SELECT $10::bigint, $6::timestamptz, 0
    WHERE $6::timestamptz > statement_timestamp() AND NOT $11::boolean
)
INSERT INTO stint.ready (position, lo, hi, action, priority, deadline, tries, limit_key)
SELECT coalesce($14::bigint, nextval('stint.positions')), $10::bigint, $10::bigint, $2::text,
       $4::smallint, $7::timestamptz, 0, $12::text
WHERE ($6::timestamptz IS NULL OR $6::timestamptz <= statement_timestamp()) AND NOT $11::boolean
