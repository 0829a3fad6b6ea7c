-- Supabase: the role postgres is no superuser, and the database is not its own. Statements end
-- after two minutes.
CREATE ROLE cloud_role LOGIN PASSWORD 'secret' CONNECTION LIMIT 30
    NOSUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS;
GRANT pg_monitor, pg_read_all_data, pg_signal_backend TO cloud_role;
GRANT ALL ON DATABASE cloud_database TO cloud_role;
ALTER DATABASE cloud_database SET statement_timeout = '2min';
