-- name: schedule_overdue
--
-- Returns a row if some schedule is due.
SELECT true
FROM stint.schedules
WHERE schedules.next_at <= statement_timestamp()
LIMIT 1
