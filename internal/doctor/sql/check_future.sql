-- name: check_future
--
-- Returns how far the newest rows are ahead of the clock that dated them, which is how far the
-- clock has gone back; null or negative if it has not.
SELECT greatest(
    (SELECT max(action_stats.asked_at) FROM stint.action_stats),
    (SELECT max(actors.since) FROM stint.actors),
    (SELECT last.inserted_at
     FROM (SELECT tasks.inserted_at FROM stint.tasks ORDER BY tasks.key DESC LIMIT 1) AS last)
) - statement_timestamp() AS ahead
