-- name: set_path
--
-- Goes ahead of the command's own questions, to the end of the transaction: what they name is
-- PostgreSQL's own, whatever else of their names somebody has made in a schema of the caller's
-- path.
--
-- The styles are those that the driver reads where it is told to have the server send text.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.set_config('DateStyle', 'ISO', true),
       pg_catalog.set_config('IntervalStyle', 'postgres', true)
