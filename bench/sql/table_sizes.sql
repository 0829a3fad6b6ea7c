-- Rows and bytes of Stint's tables, as the statistics and the files have them: nothing is read.
-- What busy sessions did is in the statistics within a second or two.
SELECT relname, n_tup_ins, n_tup_del, n_live_tup, n_dead_tup, pg_table_size(relid),
       pg_indexes_size(relid), autovacuum_count
  FROM pg_stat_user_tables
 WHERE schemaname = 'stint'
 ORDER BY relname
