-- name: check_databases
--
-- Returns the age of the oldest transaction and of the oldest multixact in each database, since any
-- of them can stop the whole server. The columns have the names that they have in check_tables.
SELECT datname::text AS name, age(datfrozenxid)::bigint AS transactions,
       mxid_age(datminmxid)::bigint AS multixacts
FROM pg_database
ORDER BY name
