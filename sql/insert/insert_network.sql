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
--   $13 verdict    smallint[]: as in settling
--   $14 accepts    smallint[]: the conditions of the edges; null: all are ordinary
--   $15 results    text[]: each an array of bytea, or null
WITH waiting AS (
    -- All tasks are inserted as if their predecessors had yet to end.
    INSERT INTO stint.blocked (key, missing, not_before)
    SELECT waiting.key, waiting.missing, waiting.not_before
    FROM unnest($3::bigint[], $4::integer[], $5::timestamptz[])
        AS waiting (key, missing, not_before)
), edge AS (
    INSERT INTO stint.edges (after, run, accepts, results)
    SELECT edge.after, edge.run, edge.accepts, edge.results::bytea[]
    FROM unnest($6::bigint[], $7::bigint[], $14::smallint[], $15::text[])
        AS edge (after, run, accepts, results)
)
-- A signal is there from the start since a predecessor has ended already (R3), or because a
-- spontaneous task waits for nothing (R14). The signals go into round $2 of settling.
INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled, verdict)
SELECT $1::bigint, $2::integer, arrival.*
FROM unnest($8::bigint[], $9::integer[], $10::integer[], $11::integer[], $12::boolean[],
            $13::smallint[])
    AS arrival (key, signals, completed, aborted, spoiled, verdict)
