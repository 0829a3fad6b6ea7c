-- How many finished tasks there are, in how many rows, and the bytes that these take with their
-- indexes. They are counted one by one.
SELECT coalesce(sum(hi - lo + 1), 0)::bigint, count(*),
       pg_total_relation_size('stint.finished')
  FROM stint.finished
