-- Tells the listener which row there is.
SELECT pg_notify('raw', $1)
