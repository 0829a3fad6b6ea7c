-- name: plan_for_all
--
-- Runs with set_path ahead of the statements that read whole tables. On small tables, compiling
-- such a statement takes a thousand times as long as running it. On large tables whose statistics
-- are old, the planner takes nested loops for cheap, and they need a time that grows with the
-- square of the size.
SELECT set_config('enable_nestloop', 'off', true)
