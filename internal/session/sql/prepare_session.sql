-- name: prepare_session
--
-- Keeps the server from ending the session for being idle, and makes it notice within seconds that
-- the host at the other end is gone. The connection is the store's own, so the search path, which
-- is that of set_path, and the settings of read_texts are set for as long as the connection lives:
-- notifications come outside of transactions.
SELECT set_config('search_path', 'pg_catalog, pg_temp', false),
       set_config('client_encoding', 'UTF8', false),
       set_config('standard_conforming_strings', 'on', false),
       set_config('idle_session_timeout', '0', false),
       set_config('tcp_keepalives_idle', '2', false),
       set_config('tcp_keepalives_interval', '1', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('tcp_user_timeout', '5000', false)
