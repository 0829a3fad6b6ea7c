-- name: database_exists
--
-- Returns whether there is a database named $1. The caller holds the lock of lock_databases.
--
--   $1 name  text
SELECT EXISTS (
    SELECT
    FROM pg_catalog.pg_database
    WHERE pg_database.datname OPERATOR(pg_catalog.=) $1::pg_catalog.text
)
