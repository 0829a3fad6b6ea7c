-- Tells the listener, unless another commit is about to: this one would wait for its lock of the
-- server.
SELECT pg_notify('raw', $1) WHERE pg_try_advisory_xact_lock(1)
