-- name: pin_path
--
-- Is set_path for a script, which may be run without a transaction around it.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)
