-- name: set_path
--
-- Sets the search path, jit and how parameters are read to the end of the transaction. It runs
-- ahead of the statements that need no other planner settings.
--
-- Operators, functions and types are then PostgreSQL's own, even if somebody has made others of the
-- same names in a schema of the caller's path. Temporary tables come first unless the path names
-- them, so it names them last.
--
-- These are VALUES of several rows, as in the other statements about settings, since PostgreSQL
-- never compiles their expressions. With tiny costs it would compile a SELECT of them, for longer
-- than all that follows takes, before jit is off.
VALUES (set_config('search_path', 'pg_catalog, pg_temp', true)),
       -- In a simple query the driver writes the parameters out: NULL in an array is no text.
       (set_config('array_nulls', 'on', true)),
       -- Where row level security would hide rows, the server says so: without them, tasks would
       -- just never be found.
       (set_config('row_security', 'off', true)),
       (set_config('jit', 'off', true))
