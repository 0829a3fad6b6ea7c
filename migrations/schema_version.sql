-- name: schema_version
--
-- The version that a schema is at. The table is missing where nothing was ever migrated.
SELECT version FROM stint.stint_schema_version
