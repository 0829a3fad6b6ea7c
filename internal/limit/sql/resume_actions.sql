-- name: resume_actions
--
-- Ends the pauses of actions.
--
--   $1 actions  text[]
UPDATE stint.limits
SET paused_at = NULL
WHERE limits.action = ANY ($1::text[]) AND limits.paused_at IS NOT NULL
