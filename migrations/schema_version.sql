-- name: schema_version
--
-- The version that a schema is at, and whether Citus distributes the schema. The table is missing
-- where nothing was ever migrated. Where that of Citus is missing, the statement cannot name it but
-- in a text.
--
--   $1 schema  text, quoted as an identifier
SELECT version,
       CASE
           WHEN pg_catalog.to_regclass('pg_catalog.pg_dist_schema') IS NULL THEN false
           ELSE pg_catalog.query_to_xml(
                    pg_catalog.format('SELECT 1 AS found FROM pg_catalog.pg_dist_schema WHERE '
                        'schemaid OPERATOR(pg_catalog.=) %s',
                        coalesce(pg_catalog.to_regnamespace($1::pg_catalog.text), 0)
                            ::pg_catalog.oid),
                    false, false, '')::pg_catalog.text OPERATOR(pg_catalog.~~) '%<found>%'
       END AS distributed
FROM stint.stint_schema_version
