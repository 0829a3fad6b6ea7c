-- How many tasks are not finished.
SELECT (SELECT count(*) FROM raw_job)
       - (SELECT coalesce(sum(hi - lo + 1), 0) FROM raw_finished)::bigint
