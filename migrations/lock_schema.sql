-- name: lock_schema
--
-- Held to the end of the transaction. The number is arbitrary; it must only be the same everywhere:
-- here, in hold_schema, and where stint migrate looks for the process that migrates.
SELECT pg_catalog.pg_advisory_xact_lock(6153097412580361)
