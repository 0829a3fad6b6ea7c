-- name: draw_fence
--
-- Draws a number for the owner of a task, if it is owned with that claim. The row is locked first:
-- as long as the claim holds, nobody else was given the task, so whoever is given it later draws a
-- greater number.
--
--   $1 key    bigint; the task must have been split off its span
--   $2 claim  bigint
WITH held AS MATERIALIZED (
    SELECT leased.lo, leased.claim
    FROM stint.leased
    WHERE leased.lo = $1::bigint AND leased.hi = $1::bigint AND leased.claim = $2::bigint
    FOR KEY SHARE
)
SELECT held.lo, held.claim, nextval('stint.fences') AS fence FROM held
