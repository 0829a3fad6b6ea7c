-- name: create_version
--
-- Makes the table that holds the version of the schema, in one row. set_version fills it.
CREATE TABLE IF NOT EXISTS stint.stint_schema_version (version integer NOT NULL)
