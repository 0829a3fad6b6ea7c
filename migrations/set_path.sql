-- name: set_path
--
-- Goes ahead of raise_sequences, to the end of the transaction, so that the functions and operators
-- are PostgreSQL's own, whatever else of their names somebody has made in a schema of the caller's
-- path.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)
