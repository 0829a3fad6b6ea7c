-- name: schema_version
--
-- Returns the version that the migrations brought the schema to, the oldest version whose releases
-- work with it, the encoding of the database, and whether Citus distributes the schema. A store
-- asks once.
--
--   $1 schema  text, quoted as an identifier
SELECT schema.version, supported.since, current_setting('server_encoding') AS encoding,
       CASE WHEN to_regclass('pg_catalog.pg_dist_schema') IS NULL THEN false
            -- Where the table is missing, the statement cannot name it but in a text.
            ELSE query_to_xml(
                     format('SELECT 1 AS found FROM pg_catalog.pg_dist_schema WHERE schemaid = %s',
                            coalesce(to_regnamespace($1::text), 0)::oid),
                     false, false, '')::text LIKE '%<found>%'
       END AS distributed
FROM stint.stint_schema_version AS schema
CROSS JOIN stint.supported
