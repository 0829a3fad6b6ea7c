-- Amazon RDS and Aurora: the master user is a member of rds_superuser, which is no superuser.
CREATE ROLE cloud_role LOGIN PASSWORD 'secret' CONNECTION LIMIT 30
    NOSUPERUSER CREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS;
GRANT pg_monitor, pg_signal_backend, pg_checkpoint TO cloud_role WITH ADMIN OPTION;
ALTER DATABASE cloud_database OWNER TO cloud_role;
ALTER DATABASE cloud_database SET idle_in_transaction_session_timeout = '1d';
