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

-- name: note_tries
--
-- Adds up how many tasks a store has fetched, by action.
--
--   $1 actions  text[], sorted, so that two stores do not deadlock
--   $2 tries    bigint[]
--   $3 retries  bigint[]: how many of tries were not a task's first
INSERT INTO stint.action_stats (action, asked_at, tries, retries)
SELECT counted.action, statement_timestamp(), counted.tries, counted.retries
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS counted (action, tries, retries)
ON CONFLICT (action) DO UPDATE
-- asked_at stays as it is, so that the new version touches no index.
SET tries = action_stats.tries + excluded.tries, retries = action_stats.retries + excluded.retries
