-- name: database_exists
--
-- Whether there is a database named $1. Asked under the lock of lock_databases.
--
--   $1 name  text
SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1::text)
