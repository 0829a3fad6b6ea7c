-- How many jobs gue has not completed: completing one deletes it.
SELECT count(*) FROM gue_jobs
