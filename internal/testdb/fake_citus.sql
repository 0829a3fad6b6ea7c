-- The catalog in which Citus notes the schemas that it distributes, as version 12 and up have it.
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_schema (
    schemaid oid NOT NULL, colocationid int NOT NULL,
    CONSTRAINT pg_dist_schema_pkey PRIMARY KEY (schemaid),
    CONSTRAINT pg_dist_schema_unique_colocationid_index UNIQUE (colocationid)
);
GRANT SELECT ON pg_catalog.pg_dist_schema TO public;
INSERT INTO pg_catalog.pg_dist_schema
SELECT oid, 1 FROM pg_namespace WHERE nspname = 'public';
RESET allow_system_table_mods
