-- Graphile Worker's own function to add a job.
SELECT id FROM graphile_worker.add_job('bench', $1::json)
