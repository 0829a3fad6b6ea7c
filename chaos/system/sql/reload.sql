-- name: reload
SELECT pg_reload_conf()
