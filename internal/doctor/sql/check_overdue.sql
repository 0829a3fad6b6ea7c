-- name: check_overdue
--
-- Returns the tasks that a store that maintains would have seen to long ago: how many there are,
-- and since when.
SELECT late.kind, late.tasks, late.since
FROM (
    SELECT 'lease' AS kind, sum(leased.hi - leased.lo + 1)::bigint AS tasks,
           statement_timestamp() - min(leases.deadline) AS since
    FROM stint.leases
    JOIN stint.leased ON leased.claim = leases.claim AND leased.part = leases.part
    WHERE leases.deadline < statement_timestamp() - interval '10 seconds'
    UNION ALL
    SELECT 'not before', count(*), statement_timestamp() - min(scheduled.not_before)
    FROM stint.scheduled
    WHERE scheduled.not_before < statement_timestamp() - interval '10 seconds'
    UNION ALL
    SELECT 'deadline', count(*), statement_timestamp() - min(deadlines.deadline)
    FROM stint.deadlines
    WHERE deadlines.deadline < statement_timestamp() - interval '10 seconds'
) AS late
WHERE late.tasks > 0
