-- name: set_path
--
-- Goes ahead of the statements that need no planner settings, to the end of the transaction.
--
-- Operators, functions and types are PostgreSQL's own, whatever else of their names somebody has
-- made in a schema of the caller's path. Temporary tables, which come first unless they are named,
-- come last.
--
-- VALUES of several rows, as in the other statements about settings: PostgreSQL never compiles
-- their expressions. With tiny costs it would compile a SELECT of them, for longer than all that
-- follows takes, before jit is off.
VALUES (set_config('search_path', 'pg_catalog, pg_temp', true)),
       (set_config('jit', 'off', true))
