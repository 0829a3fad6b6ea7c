-- name: create_demo_schema
--
-- Fails if there is such a schema, whoever made it in the meantime.
CREATE SCHEMA stint_demo
