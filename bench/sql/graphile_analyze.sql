-- What autovacuum does within a minute. Before, the planner expects a few jobs, so it has each
-- batch read and sort the whole table instead of going along the index, and draining takes two to
-- four times as long.
ANALYZE graphile_worker._private_jobs
