-- Neon: the role that is made with a project is a member of neon_superuser, which is no superuser.
CREATE ROLE cloud_role LOGIN PASSWORD 'secret' CONNECTION LIMIT 30
    NOSUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS;
GRANT pg_monitor, pg_read_all_data, pg_write_all_data TO cloud_role;
ALTER DATABASE cloud_database OWNER TO cloud_role;
ALTER DATABASE cloud_database SET idle_in_transaction_session_timeout = '5min';
