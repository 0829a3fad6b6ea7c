-- name: note_pruning
--
-- Notes how far pruning is behind.
--
--   $1 behind  interval
INSERT INTO stint.pruning (told_at, behind)
VALUES (statement_timestamp(), $1::interval)
ON CONFLICT (single) DO UPDATE SET told_at = excluded.told_at, behind = excluded.behind
