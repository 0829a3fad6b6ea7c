-- The tables of schema $1, in random order.
SELECT relname::text FROM pg_class
WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'
ORDER BY random()
