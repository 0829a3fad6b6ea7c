SELECT pg_create_logical_replication_slot('chaos_logical', 'pgoutput')
