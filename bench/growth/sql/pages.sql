-- How many pages of Stint's tables and indexes, and of what is stored apart from them, this
-- transaction has read so far.
SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::bigint
  FROM pg_class
 WHERE relnamespace IN ($1::regnamespace, 'pg_toast'::regnamespace)
