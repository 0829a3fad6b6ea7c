-- name: check_settings
--
-- Returns settings as this role has them in this database, in their base units.
--
--   $1 names  text[]
SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])
