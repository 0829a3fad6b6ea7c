-- name: schema_version
--
-- The version that the migrations brought the schema to, and the oldest version whose releases work
-- with it. Asked once per store.
SELECT schema.version, supported.since
FROM stint.stint_schema_version AS schema
CROSS JOIN stint.supported
