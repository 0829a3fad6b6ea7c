-- How many rows are deleted, or old versions, and not yet cleared away.
SELECT coalesce(sum(n_dead_tup), 0)::integer FROM pg_stat_user_tables
