-- name: now
--
-- Returns what the database's clock shows.
SELECT statement_timestamp()
