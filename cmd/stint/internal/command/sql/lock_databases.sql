-- name: lock_databases
--
-- Lets one process at a time create databases. The lock is held to the end of the session, since a
-- database cannot be created in a transaction. The number is arbitrary; it must only be the same
-- everywhere.
SELECT pg_catalog.pg_advisory_lock(6153097412580362)
