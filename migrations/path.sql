-- name: path
--
-- Says whether the path is the one that the connection was made with: a pooler may have dropped it,
-- or keep it for itself and set it again by SET, which the server forgets at RESET ALL.
SELECT pg_catalog.current_setting('search_path')
