-- name: raise_supported
--
-- Makes releases refuse to start that do not know of limits.
UPDATE stint.supported
SET since = 2
WHERE supported.since < 2
