-- name: make_next_due
--
-- Makes those scheduled tasks due now whose time is the next to come. It may have come since
-- somebody looked for what is due.
UPDATE stint.scheduled
SET not_before = statement_timestamp()
WHERE scheduled.not_before = (SELECT min(next.not_before) FROM stint.scheduled AS next)
