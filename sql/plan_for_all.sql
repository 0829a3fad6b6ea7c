-- name: plan_for_all
--
-- Ahead of the statements that read whole tables, with set_path. On small ones, compiling
-- such a statement takes a thousand times as long as running it. On large ones whose statistics are
-- old, nested loops, which the planner then takes for cheap, need a time that grows with the square
-- of their size.
SELECT set_config('enable_nestloop', 'off', true)
