-- part: put_back_ready
--
-- Inserts the pieces of the rows of ready that take_spans has taken. They keep the position, and
-- with it their place in the queue, or that they are parked.
INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted, ready_at,
                         limit_key)
SELECT gone.position, piece.lo, piece.hi, gone.action, gone.priority, gone.tries, gone.completed,
       gone.aborted, gone.ready_at, gone.limit_key
FROM gone
CROSS JOIN LATERAL (
    -- include pieces_of_span
) AS piece
WHERE piece.lo <= piece.hi
