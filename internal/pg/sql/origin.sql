-- name: read_origin
--
-- Returns what the table origin says of where the tasks belong: how many rows there are, whether
-- something has written them anew since, as a restore does, whether this is another database, as
-- one made by CREATE DATABASE ... TEMPLATE is, and the environments that stores have named.
SELECT count(origin.written_by)::integer AS rows,
       coalesce(bool_or(origin.written_by <> origin.xmin), false) AS rewritten,
       coalesce(bool_or(origin.database_id <> pg_database.oid), false) AS elsewhere,
       coalesce(array_agg(DISTINCT origin.environment)
                FILTER (WHERE origin.environment IS NOT NULL), '{}') AS environments
FROM pg_database
LEFT JOIN stint.origin ON true
WHERE pg_database.datname = current_database()

-- name: write_origin
--
-- Says that the tasks belong to this database. It may not run in a savepoint: the row would then
-- have another xmin than the transaction.
--
--   $1 environment  text, or null
INSERT INTO stint.origin (written_by, database_id, environment)
SELECT pg_current_xact_id()::pg_catalog.xid, pg_database.oid, $1::text
FROM pg_database
WHERE pg_database.datname = current_database()

-- name: forget_origin
--
-- Forgets where the tasks belong. LOCK TABLE would need more privileges; a store that writes at
-- this moment says the same.
DELETE FROM stint.origin
