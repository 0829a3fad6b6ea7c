-- name: pruning_behind
--
-- How far pruning is behind, to which the time is added since somebody looked; no row if nobody
-- ever did.
SELECT pruning.behind + (statement_timestamp() - pruning.told_at) FROM stint.pruning
