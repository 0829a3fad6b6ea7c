-- How many tasks are ready.
SELECT coalesce(sum(hi - lo + 1), 0)::integer FROM stint.ready
