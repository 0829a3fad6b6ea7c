-- A query whose snapshot is as old as the query takes, in seconds.
SELECT count(*), pg_sleep($1) FROM pg_class
