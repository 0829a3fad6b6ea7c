-- name: keep_path
--
-- Keeps the path of whoever runs a script of migrations, until restore_path: a migration tool may
-- go on in the same transaction, and write into tables of its own.
SELECT pg_catalog.set_config('stint.search_path', pg_catalog.current_setting('search_path'), false)
