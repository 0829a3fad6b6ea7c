-- name: minute_due
--
-- Reports whether nobody has noted this minute yet.
SELECT NOT EXISTS (
    SELECT
    FROM stint.minutes
    WHERE minutes.minute = date_trunc('minute', statement_timestamp(), 'UTC')
      AND minutes.action = ''
)

-- name: list_minutes
--
-- Returns what was noted of an action in the last day, the oldest minute first.
--
--   $1 action  text, '': all actions together
SELECT minutes.since, minutes.until, minutes.tries, minutes.retries, minutes.completed,
       minutes.failed, minutes.ready, minutes.oldest, minutes.median, minutes.p95,
       minutes.wait_median, minutes.wait_p95, minutes.run_median, minutes.run_p95,
       minutes.estimated
FROM stint.minutes
WHERE minutes.minute BETWEEN statement_timestamp() - interval '1 day' AND statement_timestamp()
  AND minutes.action = $1::text
ORDER BY minutes.minute
