-- name: find_response
--
-- Returns the response that is kept of call $1.
--
--   $1 call  uuid
SELECT calls.response FROM stint.calls WHERE calls.call = $1::pg_catalog.uuid

-- name: inserted_lately
--
-- Reports whether task $1 was inserted in the last minute as one that is the same to a worker.
--
--   $1 id         text
--   $2 action     text
--   $3 body       bytea
--   $4 limit_key  text, '': none
SELECT EXISTS (
    SELECT
    FROM stint.tasks
    WHERE tasks.id = $1::text AND tasks.action = $2::text
      AND coalesce(tasks.body, '') = coalesce($3::bytea, '')
      AND coalesce(tasks.limit_key, '') = $4::text
      AND tasks.inserted_at > statement_timestamp() - '1 minute'::interval
)

-- name: keep_response
--
-- Keeps the response to call $1 for ten minutes, unless one is kept: then it inserts nothing. It
-- waits for another attempt of the call that is about to commit.
--
--   $1 call      uuid
--   $2 response  bytea
--
-- Each call drops two old responses, if there are so many, so they are no more than the calls of
-- ten minutes. It passes over those that another call is dropping.
WITH old AS MATERIALIZED (
    SELECT calls.call
    FROM stint.calls
    WHERE calls.answered_at < statement_timestamp() - '10 minutes'::interval
    ORDER BY calls.answered_at
    LIMIT 2
    FOR UPDATE SKIP LOCKED
), dropped AS (
    DELETE FROM stint.calls WHERE calls.call = ANY (ARRAY(SELECT old.call FROM old))
)
INSERT INTO stint.calls (call, response) VALUES ($1::pg_catalog.uuid, $2::bytea)
ON CONFLICT DO NOTHING
