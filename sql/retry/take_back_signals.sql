-- name: take_back_signals
--
-- Lowers the numbers of completed and aborted tasks that blocked tasks were told of, by those of
-- predecessors that are opened again.
--
--   $1 keys       bigint[], each once
--   $2 completed  integer[]
--   $3 aborted    integer[]
UPDATE stint.blocked
SET completed = greatest(blocked.completed - told.completed, 0),
    aborted = greatest(blocked.aborted - told.aborted, 0)
FROM (
    SELECT waiting.tid, told.completed, told.aborted
    FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS told (key, completed, aborted)
    CROSS JOIN LATERAL (
        SELECT blocked.ctid AS tid FROM stint.blocked WHERE blocked.key = told.key OFFSET 0
    ) AS waiting
) AS told
WHERE blocked.ctid = told.tid
