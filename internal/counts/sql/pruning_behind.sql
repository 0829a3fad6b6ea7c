-- name: pruning_behind
--
-- Returns how far pruning is behind, plus the time that has passed since somebody noted it. Returns
-- no row if nobody ever did.
SELECT greatest(
    -- The clock may have been set back since.
    pruning.behind + (statement_timestamp() - pruning.told_at), '0'::interval
) FROM stint.pruning
