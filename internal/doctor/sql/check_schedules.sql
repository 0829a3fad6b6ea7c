-- name: check_schedules
--
-- Returns the schedules that have been due for more than a minute, those that have been for longest
-- first, and how many there are.
SELECT schedules.name, statement_timestamp() - schedules.next_at AS late,
       count(*) OVER () AS schedules
FROM stint.schedules
WHERE schedules.next_at < statement_timestamp() - interval '1 minute'
ORDER BY schedules.next_at, schedules.name
LIMIT 5
