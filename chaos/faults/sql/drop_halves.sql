-- What drops the indexes of schema $1 that are not valid.
SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', indexrelid::regclass)
FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = $1::text::regnamespace AND NOT indisvalid
