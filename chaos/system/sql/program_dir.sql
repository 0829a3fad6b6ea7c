-- name: program_dir
--
-- Returns the directory of the server's programs.
SELECT pg_config.setting FROM pg_config WHERE pg_config.name = 'BINDIR'
