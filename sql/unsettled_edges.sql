-- name: unsettled_edges
--
-- The edges into tasks that are blocked: where a cycle would be. Whole tables are read, with the
-- planner's own choice of plans.
SELECT edges.after, edges.run
FROM stint.edges
JOIN stint.blocked ON blocked.key = edges.run
