-- name: first_calls
--
-- Returns keys and times of insertion of the tasks with these IDs, in no particular order, each
-- with the time of this call; and one row with nothing but that time if there is none.
--
--   $1 ids  text[]
SELECT task.key, task.inserted_at, statement_timestamp() AS now
FROM (VALUES (true)) AS answer (one)
LEFT JOIN (
    SELECT task.key, task.inserted_at
    FROM unnest($1::text[]) AS named (id)
    CROSS JOIN LATERAL (
        -- What was inserted in the future, since the clock was ahead, is of now.
        SELECT tasks.key, least(tasks.inserted_at, statement_timestamp()) AS inserted_at
        FROM stint.tasks
        WHERE tasks.id = named.id
        OFFSET 0
    ) AS task
) AS task ON true

-- name: lock_debounced
--
-- Lets one call of Debounce at a time look at a task and change it, until the transaction ends.
-- Otherwise callers that meet would replace one another's follow-ups, at each of which the return
-- of the task in progress looks again; and of those that find a finished task, one inserts the next
-- and the others begin again, however often somebody loses.
--
--   $1 id  text
--
-- It goes ahead of all other locks of the call.
SELECT pg_advisory_xact_lock('stint.tasks'::regclass::oid::integer, hashtext($1::text))::text

-- name: renew_blocked
--
-- Makes a blocked task that is given another definition as new as one that was inserted just now,
-- except for the edges that it has: forgets its tries and what they left, and that it failed fast.
--
--   $1 key         bigint
--   $2 not_before  timestamptz: before that it does not start once it no longer waits
WITH slow AS (
    DELETE FROM stint.fail_fast WHERE fail_fast.key = $1::bigint
), forgotten AS (
    DELETE FROM stint.tries WHERE tries.key = $1::bigint
), forgiven AS (
    DELETE FROM stint.losses WHERE losses.key = $1::bigint
)
UPDATE stint.blocked
SET not_before = $2::timestamptz, claim = NULL, tries = 0, status = NULL
WHERE blocked.key = $1::bigint
