-- name: create_schema
--
-- Makes the schema that holds everything, the migrator's version table included. Run under a lock,
-- since two processes that start at once would collide on CREATE SCHEMA IF NOT EXISTS itself.
CREATE SCHEMA IF NOT EXISTS stint
