-- name: set_version
--
-- Notes the version that the schema is at now.
--
--   $1 version  integer
WITH old AS (
    DELETE FROM stint.stint_schema_version
)
INSERT INTO stint.stint_schema_version (version) VALUES ($1::integer)
