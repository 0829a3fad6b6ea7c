-- Has all actors been registered, and somebody asked last for each action, so much longer ago.
--
--   $1 by  interval
WITH asked AS (
    UPDATE stint.action_stats SET asked_at = asked_at - $1::interval
)
UPDATE stint.actors SET since = since - $1::interval
