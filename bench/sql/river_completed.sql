-- How many jobs River has completed.
SELECT count(*) FROM river_job WHERE state = 'completed'
