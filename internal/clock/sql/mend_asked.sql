-- name: mend_asked
--
-- Makes up to $1 actions that were asked for in the future have been asked for now, and what was
-- told of pruning be told now. Returns how many, and by how much the clock was ahead. Both are
-- written anew only when they are old.
--
--   $1 rows  integer
WITH ahead AS MATERIALIZED (
    SELECT action_stats.action, action_stats.asked_at
    FROM stint.action_stats
    WHERE action_stats.asked_at > statement_timestamp() + interval '1 s'
    LIMIT $1::integer
    FOR NO KEY UPDATE SKIP LOCKED
), mended AS (
    UPDATE stint.action_stats
    SET asked_at = statement_timestamp()
    WHERE action_stats.action = ANY (ARRAY(SELECT ahead.action FROM ahead))
), told AS (
    UPDATE stint.pruning
    SET told_at = least(pruning.told_at, statement_timestamp()),
        pruned_to = CASE
            WHEN pruning.pruned_to > statement_timestamp() THEN statement_timestamp()
            ELSE pruning.pruned_to
        END
    WHERE greatest(pruning.told_at, pruning.pruned_to) > statement_timestamp() + interval '1 s'
    RETURNING pruning.single
)
SELECT (SELECT count(*) FROM ahead) + (SELECT count(*) FROM told) AS rows,
       (SELECT max(ahead.asked_at) FROM ahead) - statement_timestamp() AS ahead
