-- Google Cloud SQL: the user postgres is a member of cloudsqlsuperuser, which is no superuser.
CREATE ROLE cloud_role LOGIN PASSWORD 'secret' CONNECTION LIMIT 30
    NOSUPERUSER CREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS;
GRANT pg_monitor, pg_signal_backend TO cloud_role;
ALTER DATABASE cloud_database OWNER TO cloud_role;
