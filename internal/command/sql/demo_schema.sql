-- name: demo_schema
--
-- Whether there is such a schema, and what it says of itself.
--
--   $1 schema  text, quoted as an identifier
SELECT to_regnamespace($1::text) IS NOT NULL,
    coalesce(obj_description(to_regnamespace($1::text), 'pg_namespace'), '')
