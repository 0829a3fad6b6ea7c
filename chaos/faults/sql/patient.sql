-- This session looks for deadlocks so late that the others find them.
SELECT set_config('deadlock_timeout', '30s', true)
