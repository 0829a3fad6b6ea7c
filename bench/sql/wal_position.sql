-- How much WAL there is, whether or not it has been written to the disk.
SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint
