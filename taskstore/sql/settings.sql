-- name: settings
--
-- Sets the search path and the planner to the end of the transaction, ahead of every statement, for
-- the reasons that set_path and set_planner of the root package give: operators, functions and
-- types are PostgreSQL's own, the answers are in the styles that the driver reads, and every plan
-- goes along the indexes, whatever the statistics of tables that are empty one minute and full the
-- next.
VALUES (set_config('search_path', 'pg_catalog, pg_temp', true)),
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
       (set_config('max_parallel_workers_per_gather', '0', true)),
       (set_config('jit', 'off', true))
