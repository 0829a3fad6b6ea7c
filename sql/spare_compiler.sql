-- name: spare_compiler
--
-- Ahead of the statements that read whole tables: on small ones, compiling such a statement takes a
-- thousand times as long as running it.
SELECT set_config('jit', 'off', true)
