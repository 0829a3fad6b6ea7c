-- Azure Database for PostgreSQL: the administrator is a member of azure_pg_admin, and no superuser.
CREATE ROLE cloud_role LOGIN PASSWORD 'secret' CONNECTION LIMIT 30
    NOSUPERUSER CREATEDB CREATEROLE REPLICATION NOBYPASSRLS;
GRANT pg_monitor TO cloud_role;
ALTER DATABASE cloud_database OWNER TO cloud_role;
