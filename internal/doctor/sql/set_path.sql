-- name: set_path
--
-- Goes ahead of the command's own questions, to the end of the transaction: what they name is
-- PostgreSQL's own, whatever else of their names somebody has made in a schema of the caller's
-- path.
--
-- The styles are those that the driver reads where it is told to have the server send text. The
-- encoding is that in which it sends and reads all texts.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.set_config('client_encoding', 'UTF8', true),
       pg_catalog.set_config('standard_conforming_strings', 'on', true),
       pg_catalog.set_config('DateStyle', 'ISO', true),
       pg_catalog.set_config('IntervalStyle', 'postgres', true)
