-- name: queue_heads
--
-- The first tasks of queues, for a caller that asks for many tasks of many actions. Returns the
-- number of the queue, from 1 on, the rank of a span and the number of its tasks.
--
--   $1 actions    text[]
--   $2 from_rank  bigint[]
--   $3 to_rank    bigint[]: where in the queue of each action to look, as in own_tasks
--   $4 spans      integer[]: how many to look at in each
SELECT queue.number, span.rank, span.tasks
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::integer[])
    WITH ORDINALITY AS queue (action, from_rank, to_rank, spans, number)
CROSS JOIN LATERAL (
    SELECT ready.rank, ready.hi - ready.lo + 1 AS tasks
    FROM stint.ready
    WHERE ready.action = queue.action
      AND ready.rank BETWEEN queue.from_rank AND queue.to_rank
      AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
    ORDER BY ready.action, ready.rank, ready.hi
    LIMIT queue.spans
) AS span
