-- name: record_step
--
-- Records what a step of an owned task returned, if the task is owned with that claim and has room
-- for it. Returns key and claim of the task if it is owned, whether the step has been recorded by
-- this call, whether there is no room for it, and the result that was recorded before, if one was.
--
--   $1 key     bigint; the task must have been carved out of its span
--   $2 claim   bigint
--   $3 name    text
--   $4 result  bytea
--   $5 steps   integer: how many a task may have
--   $6 bytes   bigint: how many their results may have together
WITH owned AS MATERIALIZED (
    -- The lock lets nobody be given the task before this transaction ends. So whoever is given it
    -- next finds the step.
    SELECT leased.lo AS key, leased.claim
    FROM stint.leased
    WHERE leased.lo = $1::bigint AND leased.hi = $1::bigint AND leased.claim = $2::bigint
    FOR NO KEY UPDATE
), before AS MATERIALIZED (
    SELECT steps.result FROM stint.steps WHERE steps.key = $1::bigint AND steps.name = $3::text
), room AS MATERIALIZED (
    -- No value is read for its length.
    SELECT count(*) < $5::integer
               AND coalesce(sum(octet_length(steps.result)), 0) + octet_length($4::bytea)
                   <= $6::bigint AS suffices
    FROM stint.steps
    WHERE steps.key = $1::bigint
), added AS (
    INSERT INTO stint.steps (key, name, result)
    SELECT owned.key, $3::text, $4::bytea
    FROM owned
    CROSS JOIN room
    WHERE room.suffices AND NOT EXISTS (SELECT FROM before)
    ON CONFLICT ON CONSTRAINT steps_pkey DO NOTHING
    RETURNING true AS done
)
SELECT owned.key, owned.claim, EXISTS (SELECT FROM added) AS added,
       NOT (SELECT room.suffices FROM room) AS is_full, EXISTS (SELECT FROM before) AS known,
       (SELECT before.result FROM before) AS result
FROM owned
