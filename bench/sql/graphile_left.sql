-- How many jobs Graphile Worker has not completed: completing one deletes it.
SELECT count(*) FROM graphile_worker._private_jobs
