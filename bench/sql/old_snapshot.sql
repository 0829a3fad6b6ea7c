-- The first statement of a transaction that is REPEATABLE READ takes its snapshot.
SELECT count(*) FROM pg_class
