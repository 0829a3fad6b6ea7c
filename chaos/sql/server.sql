-- name: server
--
-- Returns how many bytes of WAL were ever written, and how many clients are connected.
SELECT (pg_current_wal_lsn() - '0/0')::bigint,
       (SELECT count(*)
        FROM pg_stat_activity
        WHERE pg_stat_activity.backend_type = 'client backend')
