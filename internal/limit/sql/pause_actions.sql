-- name: pause_actions
--
-- Pauses actions. One that is paused already stays so since when it was.
--
--   $1 actions  text[], sorted
INSERT INTO stint.limits (action, paused_at)
SELECT named.action, statement_timestamp()
FROM unnest($1::text[]) AS named (action)
ON CONFLICT (action) DO UPDATE
SET paused_at = excluded.paused_at
WHERE limits.paused_at IS NULL
