-- name: demo_schema
--
-- Returns whether there is such a schema, and its comment.
--
--   $1 schema  text, quoted as an identifier
SELECT pg_catalog.to_regnamespace($1::pg_catalog.text) IS NOT NULL,
    coalesce(pg_catalog.obj_description(
        pg_catalog.to_regnamespace($1::pg_catalog.text), 'pg_namespace'), '')
