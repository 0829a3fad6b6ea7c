-- Leases about $2 tasks of the keys whose turn it is, 32 of each, or more where few keys are left,
-- under the claim $1, and returns their keys. The pass of a key grows by its tasks.
WITH turn AS MATERIALIZED (
    SELECT ctid AS tid, pass, limit_key FROM raw_turn
    ORDER BY pass, limit_key LIMIT ($2::integer + 31) / 32
), head AS MATERIALIZED (
    SELECT turn.tid AS turn, turn.pass, ready.*
    FROM turn
    CROSS JOIN LATERAL (
        SELECT ctid AS tid, limit_key, lo FROM raw_ready
        WHERE raw_ready.limit_key = turn.limit_key
        ORDER BY limit_key, lo
        LIMIT greatest(32, $2::integer / (SELECT count(*) FROM turn))
    ) AS ready
), gone AS (
    DELETE FROM raw_ready WHERE ctid = ANY (ARRAY(SELECT tid FROM head))
), over AS (
    DELETE FROM raw_turn
    WHERE ctid = ANY (ARRAY(SELECT tid FROM turn EXCEPT SELECT turn FROM head))
), passed AS (
    UPDATE raw_turn SET pass = pass + tasks
    FROM (SELECT turn, count(*) AS tasks FROM head GROUP BY turn) AS counted
    WHERE raw_turn.ctid = counted.turn
), leased AS (
    INSERT INTO raw_leased (lo, hi, claim) SELECT lo, lo, $1::bigint FROM head
)
SELECT lo FROM head
