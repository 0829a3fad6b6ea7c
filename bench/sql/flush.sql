-- A transaction that writes a few bytes of WAL, and nothing else.
SELECT pg_logical_emit_message(true, 'bench', '')
