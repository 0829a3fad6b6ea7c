-- How many transactions keep deleted rows, prepared ones included.
SELECT (SELECT count(*) FROM pg_prepared_xacts) + (
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND state = 'idle in transaction'
)
