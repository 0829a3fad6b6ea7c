-- Has all occurrences of schedules been, or be, so much earlier.
--
--   $1 by  interval
UPDATE stint.schedules
SET next_at = next_at - $1::interval, last_at = last_at - $1::interval
