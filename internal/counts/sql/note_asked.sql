-- name: note_asked
--
-- Notes that somebody asks for tasks with these actions.
--
--   $1 actions  text[], sorted, so that two stores do not deadlock
INSERT INTO stint.action_stats (action, asked_at)
SELECT wanted.action, statement_timestamp()
FROM unnest($1::text[]) AS wanted (action)
ON CONFLICT (action) DO UPDATE
SET asked_at = excluded.asked_at
-- A fresh note stays, so that many stores do not write all the time.
WHERE action_stats.asked_at < excluded.asked_at - interval '10 seconds'
