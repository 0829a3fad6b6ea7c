-- name: check_objects
--
-- Returns the objects that the schema is made of, and whether each is in working order. They are
-- compared with objects.txt, the objects that the migrations make, so the statement returns nothing
-- that differs between versions of the server.
--
--   $1 schema  text
WITH relation AS (
    SELECT pg_class.oid, pg_class.relname, pg_class.relkind, pg_class.relpersistence
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_namespace.nspname = $1::text AND pg_class.relkind IN ('r', 'i', 'S', 'v')
)
SELECT object.name, object.valid
FROM (
    SELECT CASE relation.relkind
               WHEN 'r' THEN CASE relation.relpersistence
                                 WHEN 'u' THEN 'unlogged table'
                                 ELSE 'table'
                             END
               WHEN 'i' THEN 'index'
               WHEN 'S' THEN 'sequence'
               ELSE 'view'
           END || ' ' || relation.relname AS name,
           coalesce(pg_index.indisvalid AND pg_index.indisready, true) AS valid
    FROM relation
    LEFT JOIN pg_index ON pg_index.indexrelid = relation.oid
    UNION ALL
    SELECT format('column %s.%s', relation.relname, pg_attribute.attname), true
    FROM relation
    JOIN pg_attribute ON pg_attribute.attrelid = relation.oid
    WHERE relation.relkind IN ('r', 'v') AND pg_attribute.attnum > 0
      AND NOT pg_attribute.attisdropped
    UNION ALL
    -- The migrations do not validate these, which would read all rows.
    SELECT 'constraint ' || pg_constraint.conname,
           pg_constraint.convalidated
               OR pg_constraint.conname IN ('tasks_limit_key_length', 'tasks_headers_length',
                                            'tasks_cost', 'edges_accepts_known',
                                            'finished_cause_known')
    FROM relation
    JOIN pg_constraint ON pg_constraint.conrelid = relation.oid
    WHERE pg_constraint.contype = 'c'
) AS object
ORDER BY object.name COLLATE "C"
