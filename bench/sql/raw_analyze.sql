-- Tells the planner how many tasks there are.
ANALYZE raw_job, raw_ready
