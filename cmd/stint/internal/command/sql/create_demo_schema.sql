-- name: create_demo_schema
--
-- Creates the schema of stint demo. It fails if there is such a schema, whoever has made it in the
-- meantime.
CREATE SCHEMA stint_demo
