SELECT pg_create_physical_replication_slot('chaos_physical', true)
