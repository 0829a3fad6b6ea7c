-- name: existing_edges
--
-- Returns the places, in the arrays, of those edges that exist.
--
--   $1 after  bigint[]
--   $2 run    bigint[]
SELECT named.place
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS named (after, run, place)
-- The index edges_after holds -run.
WHERE (SELECT true
       FROM stint.edges
       WHERE edges.after = named.after AND -edges.run = -named.run) IS NOT NULL
