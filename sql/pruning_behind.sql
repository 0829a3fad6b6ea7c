-- name: pruning_behind
--
-- How far pruning is behind, to which the time is added since somebody looked; no row if nobody
-- ever did. The clock may have been set back since.
SELECT greatest(
    pruning.behind + (statement_timestamp() - pruning.told_at), '0'::interval
) FROM stint.pruning
