-- name: forget_turns
--
-- Drops the turns of an action that is not fair any more.
--
--   $1 action  text
DELETE FROM stint.turns
WHERE turns.action = $1::text
  AND (SELECT limits.fair FROM stint.limits WHERE limits.action = $1::text) IS NOT TRUE
