-- name: note_asked
--
-- Notes that somebody asks for tasks with these actions.
--
--   $1 actions  text[], sorted
--
-- Sorted, so that two stores do not deadlock; and only what is not fresh, so that many stores do
-- not write it all the time.
INSERT INTO stint.action_stats (action, asked_at)
SELECT wanted.action, statement_timestamp()
FROM unnest($1::text[]) AS wanted (action)
ON CONFLICT (action) DO UPDATE
SET asked_at = excluded.asked_at
WHERE action_stats.asked_at < excluded.asked_at - interval '10 seconds'
