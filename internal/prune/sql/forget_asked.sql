-- name: forget_asked
--
-- Deletes the rows of actions that nobody has asked for in a week.
DELETE FROM stint.action_stats
WHERE action_stats.asked_at < statement_timestamp() - interval '7 days'
