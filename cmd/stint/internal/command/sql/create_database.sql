-- name: create_database
--
-- Creates the database of the private PostgreSQL, in UTF-8 whatever the locale that initdb found.
CREATE DATABASE stint ENCODING 'UTF8' TEMPLATE template0
