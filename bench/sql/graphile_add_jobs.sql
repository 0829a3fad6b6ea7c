-- Graphile Worker's own function to add many jobs. The rows that it returns stay on the server,
-- since to send them would cost more than they tell.
SELECT count(*)
  FROM graphile_worker.add_jobs(ARRAY(
           SELECT ROW(identifier, payload::json, NULL, NULL, NULL, NULL, priority, NULL)
                      ::graphile_worker.job_spec
             FROM unnest($1::text[], $2::text[], $3::smallint[])
                      AS job (identifier, payload, priority)))
