-- name: note_tries
--
-- Adds up how many tasks a store has handed out, by action.
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
