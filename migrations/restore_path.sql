-- name: restore_path
--
-- Is the last statement of a script.
SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('stint.search_path'), false)
