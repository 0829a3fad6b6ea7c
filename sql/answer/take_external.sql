-- name: take_external
--
-- Makes actor $3 the owner of ready external tasks, each alone in its span, under claim $2:
-- return_tasks, in the same transaction, returns them with their answers. That settles them in the
-- one way in which tasks are settled, and so only one of several answers to a task counts: the
-- others wait for it here, and then find nothing. Nor does an answer count that comes after the
-- deadline of its task, whether or not somebody has ended it since.
--
--   $1 keys   bigint[], sorted; split off their spans
--   $2 claim  bigint
--   $3 actor  text
WITH taken AS MATERIALIZED (
    SELECT ready.*
    FROM unnest($1::bigint[]) AS named (key)
    CROSS JOIN LATERAL (
        SELECT ready.lo AS key, ready.tries, ready.completed, ready.aborted, ready.status,
               ready.ready_at
        FROM stint.ready
        WHERE ready.lo = named.key AND ready.hi = ready.lo AND ready.action = 'stint.External'
          AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
        FOR UPDATE
    ) AS ready
), gone AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT taken.key FROM taken))
), lease AS (
    -- In the caller's transaction the lease stays for a minute, with nothing left to hold.
    INSERT INTO stint.leases (claim, actor, deadline, size, spans)
    SELECT $2::bigint, $3::text, statement_timestamp() + '1 minute'::interval, count(*),
           array_agg(ARRAY[taken.key, taken.key] ORDER BY taken.key)
    FROM taken
    HAVING count(*) > 0
)
INSERT INTO stint.leased (lo, hi, claim, tries, completed, aborted, status, ready_at)
SELECT taken.key, taken.key, $2::bigint, taken.tries, taken.completed, taken.aborted, taken.status,
       taken.ready_at
FROM taken
