-- How many tables of the schema somebody has for itself.
SELECT count(*) FROM pg_locks
JOIN pg_class ON pg_class.oid = relation
WHERE mode = 'AccessExclusiveLock' AND granted
    AND relnamespace = 'stint'::regnamespace AND relkind = 'r'
