-- name: insert_network
--
-- Inserts what insert_tasks leaves open: the tasks that wait for others, their edges, and the
-- signals that are there from the start.
--
--   $1 batch       bigint
--   $2 round       integer
--   $3 waiting     bigint[]: the keys of the tasks that wait
--   $4 missing     integer[]
--   $5 not_before  timestamptz[], null elements: at once
--   $6 after       bigint[]
--   $7 run         bigint[]
--   $8 key         bigint[]: the tasks with signals
--   $9 signals     integer[]
--   $10 completed  integer[]
--   $11 aborted    integer[]
--   $12 spoiled    boolean[]
WITH waiting AS (
    -- All tasks are inserted as if their predecessors had yet to end.
    INSERT INTO stint.blocked (key, missing, not_before)
    SELECT waiting.key, waiting.missing, waiting.not_before
    FROM unnest($3::bigint[], $4::integer[], $5::timestamptz[])
        AS waiting (key, missing, not_before)
), edge AS (
    INSERT INTO stint.edges (after, run)
    SELECT edge.after, edge.run
    FROM unnest($6::bigint[], $7::bigint[]) AS edge (after, run)
)
-- A signal is there from the start since a predecessor has ended already (R3), or because a
-- spontaneous task waits for nothing (R14). The signals go into round $2 of settling.
INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled)
SELECT $1::bigint, $2::integer, arrival.*
FROM unnest($8::bigint[], $9::integer[], $10::integer[], $11::integer[], $12::boolean[])
    AS arrival (key, signals, completed, aborted, spoiled)
