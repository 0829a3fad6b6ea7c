-- What Neon does to a database that nobody has used for some minutes: its sessions end, and
-- unlogged tables and sequences are empty afterwards.
DO $$
DECLARE
    it regclass;
BEGIN
    PERFORM pg_terminate_backend(pid)
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
    FOR it IN SELECT oid FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r' LOOP
        EXECUTE format('TRUNCATE %s', it);
    END LOOP;
    FOR it IN SELECT oid FROM pg_class WHERE relpersistence = 'u' AND relkind = 'S' LOOP
        EXECUTE format('ALTER SEQUENCE %s RESTART', it);
    END LOOP;
END
$$
