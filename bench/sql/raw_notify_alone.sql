-- Tells the listener, unless another commit is about to: its lock of the server would be waited for.
SELECT pg_notify('raw', $1) WHERE pg_try_advisory_xact_lock(1)
