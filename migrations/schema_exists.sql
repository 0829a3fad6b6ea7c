-- name: schema_exists
--
-- CREATE SCHEMA IF NOT EXISTS wants CREATE on the database even where the schema exists, which an
-- owner of the schema need not have. Whether Citus distributes the schema is as in schema_version.
--
--   $1 schema  text, quoted as an identifier
SELECT pg_catalog.to_regnamespace($1::pg_catalog.text) IS NOT NULL,
       CASE
           WHEN pg_catalog.to_regclass('pg_catalog.pg_dist_schema') IS NULL THEN false
           ELSE pg_catalog.query_to_xml(
                    pg_catalog.format('SELECT 1 AS found FROM pg_catalog.pg_dist_schema WHERE '
                        'schemaid OPERATOR(pg_catalog.=) %s',
                        coalesce(pg_catalog.to_regnamespace($1::pg_catalog.text), 0)
                            ::pg_catalog.oid),
                    false, false, '')::pg_catalog.text OPERATOR(pg_catalog.~~) '%<found>%'
       END AS distributed
