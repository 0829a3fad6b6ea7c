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
)
UPDATE stint.blocked
SET not_before = $2::timestamptz, claim = NULL, tries = 0, status = NULL
WHERE blocked.key = $1::bigint
