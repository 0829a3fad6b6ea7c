-- name: schema_version
--
-- Returns the version that the migrations brought the schema to, and the oldest version whose
-- releases work with it. A store asks once.
SELECT schema.version, supported.since
FROM stint.stint_schema_version AS schema
CROSS JOIN stint.supported
