-- The files of the tables (r) or indexes (i) of the schema.
SELECT string_agg(relfilenode::text, ',' ORDER BY relname) FROM pg_class
WHERE relnamespace = 'stint'::regnamespace AND relkind::text = $1
