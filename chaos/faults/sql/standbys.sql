-- How many standbys named $1 receive what the server writes, in state $2.
SELECT count(*) FROM pg_stat_replication
WHERE application_name = $1::text AND state = 'streaming' AND sync_state = $2::text
