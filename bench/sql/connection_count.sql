-- How many sessions use this database, this one included.
SELECT count(*)::integer FROM pg_stat_activity WHERE datname = current_database()
