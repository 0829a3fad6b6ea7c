-- name: drop_demo_schema
--
-- With all tables in it.
DROP SCHEMA stint_demo CASCADE
