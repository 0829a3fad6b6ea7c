-- name: check_encoding
--
-- Returns the encoding of the database, the one in which a connection like this one begins to read
-- texts, and who has another one than UTF8 in this database by a setting of the role or the
-- database.
SELECT current_setting('server_encoding') AS database,
       (SELECT reset_val FROM pg_settings WHERE name = 'client_encoding') AS connection,
       ARRAY(SELECT coalesce(pg_roles.rolname::text, 'every role') || ' has ' || setting.text
             FROM pg_db_role_setting AS override
             CROSS JOIN LATERAL unnest(override.setconfig) AS setting (text)
             LEFT JOIN pg_roles ON pg_roles.oid = override.setrole
             WHERE override.setdatabase
                   IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
               AND starts_with(setting.text, 'client_encoding=')
               AND pg_char_to_encoding(split_part(setting.text, '=', 2))
                   <> pg_char_to_encoding('UTF8')
             ORDER BY 1) AS overrides
