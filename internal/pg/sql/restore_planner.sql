-- name: restore_planner
--
-- Gives the caller's transaction the settings back that keep_planner noted.
VALUES (set_config('search_path', current_setting('stint_kept.search_path'), true)),
       (set_config('DateStyle', current_setting('stint_kept.DateStyle'), true)),
       (set_config('IntervalStyle', current_setting('stint_kept.IntervalStyle'), true)),
       (set_config('bytea_output', current_setting('stint_kept.bytea_output'), true)),
       (set_config('extra_float_digits', current_setting('stint_kept.extra_float_digits'), true)),
       (set_config('array_nulls', current_setting('stint_kept.array_nulls'), true)),
       (set_config('row_security', current_setting('stint_kept.row_security'), true)),
       (set_config('plan_cache_mode', current_setting('stint_kept.plan_cache_mode'), true)),
       (set_config('enable_seqscan', current_setting('stint_kept.enable_seqscan'), true)),
       (set_config('enable_bitmapscan', current_setting('stint_kept.enable_bitmapscan'), true)),
       (set_config('enable_hashjoin', current_setting('stint_kept.enable_hashjoin'), true)),
       (set_config('enable_mergejoin', current_setting('stint_kept.enable_mergejoin'), true)),
       (set_config('enable_memoize', current_setting('stint_kept.enable_memoize'), true)),
       (set_config('max_parallel_workers_per_gather',
                   current_setting('stint_kept.max_parallel_workers_per_gather'), true)),
       (set_config('jit', current_setting('stint_kept.jit'), true)),
       (set_config('work_mem', current_setting('stint_kept.work_mem'), true))
