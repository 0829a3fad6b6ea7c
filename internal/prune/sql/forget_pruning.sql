-- name: forget_pruning
--
-- Deletes the note how far pruning is behind if nobody has pruned for a day. A store that keeps
-- everything does so: the stores that pruned before seem to keep everything by now, too.
DELETE FROM stint.pruning WHERE pruning.told_at < statement_timestamp() - interval '1 day'
