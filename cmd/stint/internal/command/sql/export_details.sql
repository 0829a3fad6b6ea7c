-- name: export_details
--
-- Returns what get_tasks does not: for each task in the order of $1, its ID, whether it fails fast,
-- and its predecessors with their conditions, null if it has none.
--
--   $1 keys  bigint[]
SELECT task.id,
       EXISTS (SELECT FROM stint.fail_fast WHERE fail_fast.key = named.key) AS fail_fast,
       edge.list
FROM unnest($1::bigint[]) WITH ORDINALITY AS named (key, place)
CROSS JOIN LATERAL (
    SELECT tasks.id FROM stint.tasks WHERE tasks.key = named.key OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_object(
               'id', predecessor.id, 'ended', (finished.hi >= edges.after) IS TRUE,
               'accepts', edges.accepts, 'results', (
                   SELECT json_agg(encode(result.bytes, 'base64'))
                   FROM unnest(edges.results) AS result (bytes)
               )
           ) ORDER BY edges.after) AS list
    FROM stint.edges
    CROSS JOIN LATERAL (
        SELECT tasks.id FROM stint.tasks WHERE tasks.key = edges.after OFFSET 0
    ) AS predecessor
    LEFT JOIN LATERAL (
        -- include span_of_key: table=finished; key=edges.after; columns=finished.hi
    ) AS finished ON true
    WHERE edges.run = named.key
    OFFSET 0
) AS edge
ORDER BY named.place
