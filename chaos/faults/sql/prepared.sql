SELECT count(*) FROM pg_prepared_xacts WHERE gid = 'chaos'
