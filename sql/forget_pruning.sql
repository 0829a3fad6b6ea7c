-- name: forget_pruning
--
-- Drops the word on how far pruning is behind if nobody has pruned for a day: a store does so that
-- keeps everything, as those do by now, it seems, that pruned before.
DELETE FROM stint.pruning WHERE pruning.told_at < statement_timestamp() - interval '1 day'
