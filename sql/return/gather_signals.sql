-- name: gather_signals
--
-- Puts the signals of several batches into a round of another, together for each dependent: in one
-- batch, each task has one row.
--
--   $1 batches  bigint[]
--   $2 batch    bigint
--   $3 round    integer
WITH gathered AS (
    DELETE FROM stint.settling
    WHERE settling.batch = ANY ($1::bigint[])
    RETURNING settling.*
)
INSERT INTO stint.settling (batch, round, key, signals, completed, aborted, spoiled, verdict)
SELECT $2::bigint, $3::integer, gathered.key, sum(gathered.signals)::integer,
       sum(gathered.completed)::integer, sum(gathered.aborted)::integer, bool_or(gathered.spoiled),
       bit_or(gathered.verdict)
FROM gathered
GROUP BY gathered.key
