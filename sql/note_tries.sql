-- name: note_tries
--
-- Adds up how many tasks a store has handed out, by action.
--
--   $1 actions  text[], sorted
--   $2 tries    bigint[]
--   $3 retries  bigint[]: those of tries that were not a task's first
--
-- Sorted, so that two stores do not deadlock. asked_at stays as it is where there is a row, so that
-- the new version touches no index.
INSERT INTO stint.action_stats (action, asked_at, tries, retries)
SELECT counted.action, statement_timestamp(), counted.tries, counted.retries
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS counted (action, tries, retries)
ON CONFLICT (action) DO UPDATE
SET tries = action_stats.tries + excluded.tries, retries = action_stats.retries + excluded.retries
