-- name: check_databases
--
-- The ages of the oldest transaction and multixact in each database, since any of them can stop the
-- whole server. In the form of check_tables.
SELECT datname::text AS name, age(datfrozenxid)::bigint AS transactions,
       mxid_age(datminmxid)::bigint AS multixacts
FROM pg_database
ORDER BY name
