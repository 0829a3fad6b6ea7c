-- name: keep_planner
--
-- Notes the caller's settings, for restore_planner to bring back. It runs in the caller's
-- transaction, ahead of what changes them for a statement.
VALUES (set_config('stint_kept.search_path', current_setting('search_path'), true)),
       (set_config('stint_kept.DateStyle', current_setting('DateStyle'), true)),
       (set_config('stint_kept.IntervalStyle', current_setting('IntervalStyle'), true)),
       (set_config('stint_kept.bytea_output', current_setting('bytea_output'), true)),
       (set_config('stint_kept.extra_float_digits', current_setting('extra_float_digits'), true)),
       (set_config('stint_kept.array_nulls', current_setting('array_nulls'), true)),
       (set_config('stint_kept.row_security', current_setting('row_security'), true)),
       (set_config('stint_kept.plan_cache_mode', current_setting('plan_cache_mode'), true)),
       (set_config('stint_kept.enable_seqscan', current_setting('enable_seqscan'), true)),
       (set_config('stint_kept.enable_bitmapscan', current_setting('enable_bitmapscan'), true)),
       (set_config('stint_kept.enable_hashjoin', current_setting('enable_hashjoin'), true)),
       (set_config('stint_kept.enable_mergejoin', current_setting('enable_mergejoin'), true)),
       (set_config('stint_kept.enable_memoize', current_setting('enable_memoize'), true)),
       (set_config('stint_kept.max_parallel_workers_per_gather',
                   current_setting('max_parallel_workers_per_gather'), true)),
       (set_config('stint_kept.jit', current_setting('jit'), true)),
       (set_config('stint_kept.work_mem', current_setting('work_mem'), true))
