-- What was set for this server, what initdb chose, and what durability depends on.
SELECT name, current_setting(name)
  FROM pg_settings
 WHERE source IN ('command line', 'configuration file', 'environment variable')
       AND name NOT IN ('unix_socket_directories', 'unix_socket_permissions', 'listen_addresses')
       AND name NOT LIKE 'lc\_%' AND name NOT LIKE 'log\_%'
    OR name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method',
                'wal_level', 'wal_compression', 'autovacuum', 'checkpoint_timeout')
 ORDER BY name
