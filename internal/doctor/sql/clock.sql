-- name: clock
--
-- The database's clock, which ages shown to people are reckoned from.
SELECT pg_catalog.statement_timestamp()
