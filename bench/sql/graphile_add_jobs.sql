-- Graphile Worker's own function to add many jobs. The rows that it returns stay on the server,
-- since to send them would cost more than they tell. A job without the name of a queue is in none.
SELECT count(*)
  FROM graphile_worker.add_jobs(ARRAY(
           SELECT ROW(identifier, payload::json, nullif(queue, ''), NULL, NULL, NULL, priority,
                      NULL)::graphile_worker.job_spec
             FROM unnest($1::text[], $2::text[], $3::smallint[], $4::text[])
                      AS job (identifier, payload, priority, queue)))
