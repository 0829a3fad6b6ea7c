-- Nobody listens to this channel, and still the queue keeps it.
SELECT pg_notify('chaos', number || repeat('.', 7900)) FROM generate_series(1, 100) AS number
