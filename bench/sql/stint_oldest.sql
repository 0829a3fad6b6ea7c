-- For how many seconds the oldest finished task has been there, without those that post their
-- results, which stay for an hour at least. One whose result goes to an unfinished task counts.
SELECT coalesce(extract(epoch FROM statement_timestamp() - min(finished.finished_at)), 0)::float8
  FROM stint.finished
  JOIN stint.tasks ON tasks.key = finished.lo
 WHERE NOT tasks.post_result
