-- name: schema_version
--
-- The version that the migrations brought the schema to. Asked once per store.
SELECT version FROM stint.stint_schema_version
