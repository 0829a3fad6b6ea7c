-- part: brought_back
--
-- How many tasks of an action of limits were brought back before, and not fetched, of the next that
-- a fetch would look at.
SELECT coalesce(sum(CASE WHEN head.position = 0 THEN head.hi - head.lo + 1 END), 0)::bigint
           AS tasks
FROM (
    SELECT ready.position, ready.lo, ready.hi
    FROM stint.ready
    WHERE ready.action = limits.action AND ready.rank >= 0
      AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
    ORDER BY ready.action, ready.rank, ready.hi
    LIMIT $2::integer
) AS head
