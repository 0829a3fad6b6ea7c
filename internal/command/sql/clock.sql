-- name: clock
--
-- The database's clock, which ages shown to people are reckoned from.
SELECT statement_timestamp()
