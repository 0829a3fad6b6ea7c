-- name: drop_demo_schema
--
-- Drops the schema of stint demo with all tables in it.
DROP SCHEMA stint_demo CASCADE
