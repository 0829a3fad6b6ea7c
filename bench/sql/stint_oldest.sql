-- For how many seconds the oldest finished task has been there that should have been pruned, but
-- for its age: without those that post their results, which stay for an hour at least, and those
-- for which such a one waits that completed itself. A predecessor of an unfinished task counts.
SELECT coalesce(extract(epoch FROM statement_timestamp() - min(finished.finished_at)), 0)::float8
  FROM stint.finished
  JOIN stint.tasks ON tasks.key = finished.lo
 WHERE NOT tasks.post_result
   AND NOT EXISTS (
       SELECT
         FROM stint.edges
         JOIN stint.tasks AS dependent ON dependent.key = edges.run
        WHERE edges.after BETWEEN finished.lo AND finished.hi
          AND dependent.action = 'stint.Spontaneous' AND dependent.post_result
   )
