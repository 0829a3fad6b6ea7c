INSERT INTO pg_catalog.pg_dist_schema
SELECT oid, 2 FROM pg_namespace WHERE nspname = $1
