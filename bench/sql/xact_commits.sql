-- How many transactions this database has seen so far, of which busy sessions tell within a second.
SELECT (xact_commit + xact_rollback)::bigint FROM pg_stat_database
 WHERE datname = current_database()
