-- Less than any of them gives: a role that may make a schema in the database of another, and has no
-- rights on the server. There is no extension, not even PL/pgSQL, and the functions that tell of
-- the server's control file are not for everybody.
CREATE ROLE cloud_role LOGIN PASSWORD 'secret' CONNECTION LIMIT 30
    NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
GRANT CREATE ON DATABASE cloud_database TO cloud_role;
DROP EXTENSION plpgsql;
REVOKE EXECUTE ON FUNCTION
    pg_control_system(), pg_control_checkpoint(), pg_control_init(), pg_control_recovery()
    FROM PUBLIC;
