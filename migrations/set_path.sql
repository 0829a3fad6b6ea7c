-- name: set_path
--
-- Goes ahead of everything, to the end of the transaction: defaults, checks and indexes hold on to
-- the functions and operators that are found when they are made. They are PostgreSQL's own,
-- whatever else of their names somebody has made in a schema of the caller's path.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)
