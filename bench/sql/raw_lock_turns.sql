-- One after the other takes turns: whoever comes next sees the passes as they are by then.
SELECT pg_advisory_xact_lock(1)
