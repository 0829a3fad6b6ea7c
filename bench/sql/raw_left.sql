-- How many rows are left.
SELECT count(*) FROM raw_task
