-- name: unsettled_edges
--
-- Returns the edges into tasks that are blocked: a cycle could only be among them. It reads whole
-- tables, with the planner's own choice of plans.
SELECT edges.after, edges.run
FROM stint.edges
JOIN stint.blocked ON blocked.key = edges.run
