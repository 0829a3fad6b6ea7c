-- What autovacuum does in a store that is not as new.
ANALYZE
