-- name: check_ahead
--
-- Returns what a clock that was ahead, and was put back, has left: of which kind, how many
-- rows, and
-- how far in the future the last one lies of what lies before it by rule.
SELECT found.kind, found.rows, found.last - statement_timestamp() AS ahead
FROM (
    SELECT 'rates' AS kind, count(*) AS rows, max(limits.refilled_at) AS last
    FROM stint.limits
    WHERE limits.rate_tasks IS NOT NULL
      AND limits.refilled_at > statement_timestamp() + interval '1 s'
    UNION ALL
    SELECT 'rates of keys', count(*), statement_timestamp() + max(bucket.ahead)
    FROM stint.limits
    CROSS JOIN LATERAL (
        SELECT date_part('epoch', limits.key_per) / limits.key_tasks AS each
    ) AS rate
    JOIN stint.key_rates ON key_rates.action = limits.action
    CROSS JOIN LATERAL (
        -- One that counts costs may owe tokens.
        SELECT CASE WHEN limits.by_cost THEN
                   -- include bucket_ahead: bucket=key_rates
               ELSE key_rates.full_at - limits.key_burst * rate.each * interval '1 s'
                   - statement_timestamp()
               END AS ahead
    ) AS bucket
    WHERE bucket.ahead > interval '1 s'
    UNION ALL
    SELECT 'schedules', count(*), max(greatest(schedules.last_at, schedules.changed_at))
    FROM stint.schedules
    WHERE greatest(schedules.last_at, schedules.changed_at)
          > statement_timestamp() + interval '1 s'
    UNION ALL
    SELECT 'leases', count(*), max(leases.owned_at)
    FROM stint.leases
    WHERE leases.owned_at > statement_timestamp() + interval '1 s'
      AND leases.deadline < 'infinity'
    UNION ALL
    SELECT 'sessions', count(*), max(sessions.gone_at)
    FROM stint.sessions
    WHERE sessions.gone_at > statement_timestamp() + interval '1 s'
    UNION ALL
    SELECT 'ends of tasks', count(*), max(finished.finished_at)
    FROM stint.finished
    WHERE finished.finished_at > statement_timestamp() + interval '1 s'
    UNION ALL
    SELECT 'scheduled tasks', count(*), max(tasks.inserted_at)
    FROM stint.scheduled
    JOIN stint.tasks ON tasks.key = scheduled.key
    WHERE tasks.inserted_at > statement_timestamp() + interval '1 s'
) AS found
WHERE found.rows > 0
