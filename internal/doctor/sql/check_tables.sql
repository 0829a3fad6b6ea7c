-- name: check_tables
--
-- Returns how vacuum gets on with the tables: live and dead rows, how long ago they were vacuumed,
-- whether it is off, and the ages of their oldest transaction and multixact.
--
--   $1 schema  text
SELECT pg_class.relname::text AS name,
       coalesce(stat.n_live_tup, 0) AS live,
       coalesce(stat.n_dead_tup, 0) AS dead,
       statement_timestamp() - greatest(stat.last_autovacuum, stat.last_vacuum) AS vacuumed,
       coalesce(pg_class.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off,
                                         autovacuum_enabled=0,autovacuum_enabled=no}',
                false) AS vacuum_off,
       age(pg_class.relfrozenxid)::bigint AS transactions,
       mxid_age(pg_class.relminmxid)::bigint AS multixacts
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
LEFT JOIN pg_stat_all_tables AS stat ON stat.relid = pg_class.oid
WHERE pg_namespace.nspname = $1::text AND pg_class.relkind = 'r'
ORDER BY name
