-- The bytes of all of Stint's tables with their indexes.
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
  FROM pg_class
 WHERE relnamespace = 'stint'::regnamespace AND relkind = 'r'
