-- name: set_planner
--
-- Sets the search path and the planner to the end of the transaction, ahead of every statement that
-- looks something up: what set_path sets, and what follows.
--
-- The tables of a queue are empty one minute and hold millions of rows the next, so statistics are
-- wrong by nature. A plan that was made on an empty table is a sequential scan, which is kept after
-- the table has filled. Each statement here has one right plan, along indexes, from few rows to few
-- rows. The settings leave the planner no other. A generic plan saves making it again for each
-- call: own and return of single tasks gain half their speed by it.
VALUES (set_config('search_path', 'pg_catalog, pg_temp', true)),
       -- The styles are those that the driver reads where it is told to have the server send text.
       -- In another style it takes the answer for unreadable, behind the commit.
       (set_config('DateStyle', 'ISO', true)),
       (set_config('IntervalStyle', 'postgres', true)),
       (set_config('bytea_output', 'hex', true)),
       (set_config('extra_float_digits', '1', true)),
       (set_config('array_nulls', 'on', true)),
       (set_config('row_security', 'off', true)),
       (set_config('plan_cache_mode', 'force_generic_plan', true)),
       (set_config('enable_seqscan', 'off', true)),
       (set_config('enable_bitmapscan', 'off', true)),
       (set_config('enable_hashjoin', 'off', true)),
       (set_config('enable_mergejoin', 'off', true)),
       (set_config('enable_memoize', 'off', true)),
       -- Parallel workers cost more than they bring for so few rows.
       (set_config('max_parallel_workers_per_gather', '0', true)),
       -- work_mem bounds the tables that recursive statements allocate in advance, for as many rows
       -- as are guessed. At the usual size that took milliseconds, with dependents locked.
       (set_config('work_mem', '256kB', true)),
       (set_config('jit', 'off', true))
