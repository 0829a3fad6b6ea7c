-- name: forget_asked
--
-- Drops the actions that nobody has asked for in a week.
DELETE FROM stint.asked WHERE asked.asked_at < statement_timestamp() - interval '7 days'
