-- name: sizes
--
-- Returns the tables of a schema with their sizes, indexes included, and their dead rows.
SELECT stat.relname, pg_total_relation_size(stat.relid), stat.n_dead_tup
FROM pg_stat_user_tables AS stat
WHERE stat.schemaname = $1
ORDER BY stat.relname
