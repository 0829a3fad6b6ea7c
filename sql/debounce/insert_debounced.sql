-- name: insert_debounced
--
-- Inserts a task as insert_tasks does, one that may stand for earlier calls, and may take the place
-- of an older task in the queue.
--
--   $1 inserted_at   timestamptz: the first of the calls
--   $2 position      bigint, null: at the end of the queue
--   $3 not_before    timestamptz, null: at once
--   $4 waits         boolean: insert_network inserts what the task waits for
--   $5 id            text
--   $6 action        text
--   $7 body          bytea
--   $8 priority      smallint
--   $9 max_tries     integer
--   $10 deadline     timestamptz, null: none
--   $11 on_abort     smallint
--   $12 post_result  boolean
--   $13 key          bigint
--   $14 limit_key    text, null: none
--   $15 headers      text, an object of JSON, null: none
--   $16 cost         integer, null: 1
WITH defined AS (
    INSERT INTO stint.tasks
        (inserted_at, id, action, body, priority, max_tries, deadline, on_abort, post_result, key,
         limit_key, headers, cost)
    VALUES ($1::timestamptz, $5::text, $6::text, $7::bytea, $8::smallint, $9::integer,
            $10::timestamptz, $11::smallint, $12::boolean, $13::bigint, $14::text,
            $15::text::jsonb, $16::integer)
), limited AS (
    INSERT INTO stint.deadlines (deadline, key)
    SELECT $10::timestamptz, $13::bigint
    WHERE $10::timestamptz IS NOT NULL
), later AS (
    INSERT INTO stint.scheduled (key, not_before, tries)
    SELECT $13::bigint, $3::timestamptz, 0
    WHERE $3::timestamptz > statement_timestamp() AND NOT $4::boolean
)
INSERT INTO stint.ready (position, lo, hi, action, priority, deadline, tries, limit_key, ready_at)
SELECT coalesce($2::bigint, nextval('stint.positions')), $13::bigint, $13::bigint, $6::text,
       $8::smallint, $10::timestamptz, 0, $14::text, statement_timestamp()
WHERE ($3::timestamptz IS NULL OR $3::timestamptz <= statement_timestamp()) AND NOT $4::boolean
