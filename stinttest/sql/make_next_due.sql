-- name: make_next_due
--
-- Makes those scheduled tasks due now whose time is the next to come.
UPDATE stint.scheduled
SET not_before = statement_timestamp()
WHERE scheduled.not_before = (
    SELECT min(later.not_before)
    FROM stint.scheduled AS later
    WHERE later.not_before > statement_timestamp()
)
