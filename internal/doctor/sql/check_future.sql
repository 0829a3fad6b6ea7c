-- name: check_future
--
-- How far ahead of the clock rows are that were written by it, so how far it has gone back; null or
-- negative if not.
SELECT greatest(
    (SELECT max(action_stats.asked_at) FROM stint.action_stats),
    (SELECT max(actors.since) FROM stint.actors),
    (SELECT last.inserted_at
     FROM (SELECT tasks.inserted_at FROM stint.tasks ORDER BY tasks.key DESC LIMIT 1) AS last)
) - statement_timestamp() AS ahead
