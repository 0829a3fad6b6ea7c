-- name: lock_demo
--
-- Returns whether this session may use the schema of stint demo. The lock is held to the end of the
-- session, so two demos at once do not drop each other's tables. The number is arbitrary.
--
--   $1 schema  text
SELECT pg_catalog.pg_try_advisory_lock(
    pg_catalog.hashtextextended($1::pg_catalog.text, 7340512968803417)
)
