-- name: lower_supported
--
-- Lets releases start that do not know of limits, if there are none and nothing is paused. It does
-- not if the schema works with later releases only for another reason.
UPDATE stint.supported
SET since = 1
WHERE supported.since = 2 AND NOT EXISTS (SELECT FROM stint.limits WHERE limits.action > '')
