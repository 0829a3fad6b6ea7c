-- name: pass_pause
--
-- Lets the steps that the scheduled task with ID $1 has recorded be older by the time that it still
-- has to wait, so that it has slept when it is made due.
--
--   $1 id  text
UPDATE stint.steps
SET recorded_at = steps.recorded_at
                  - greatest(scheduled.not_before - statement_timestamp(), '0'::interval)
FROM stint.tasks
JOIN stint.scheduled ON scheduled.key = tasks.key
WHERE tasks.id = $1::text AND steps.key = tasks.key
