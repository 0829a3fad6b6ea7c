-- name: schema_exists
--
-- CREATE SCHEMA IF NOT EXISTS wants CREATE on the database even where the schema exists, which an
-- owner of the schema need not have.
--
--   $1 schema  text, quoted as an identifier
SELECT pg_catalog.to_regnamespace($1::pg_catalog.text) IS NOT NULL
