-- name: existing_edges
--
-- The places of those edges that exist.
--
--   $1 after  bigint[]
--   $2 run    bigint[]
--
-- By -run, which the index holds.
SELECT named.place
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS named (after, run, place)
WHERE (SELECT true
       FROM stint.edges
       WHERE edges.after = named.after AND -edges.run = -named.run) IS NOT NULL
