-- name: revive_tasks
--
-- Gives tasks whose lease expired back to their last owner, if nobody was given them since (R8).
-- This lets a late owner return or extend after all.
--
--   $1 keys     bigint[]
--   $2 claims   bigint[]
--   $3 actor    text, or null: whoever the owner was
--   $4 session  bigint, that of the actor, or null
--   $5 ends     boolean: the owner returns the tasks now. Otherwise none of an action with limits
--               is given back, since others may have the capacity that the lease left
WITH named AS MATERIALIZED (
    SELECT DISTINCT named.key, named.claim
    FROM unnest($1::bigint[], $2::bigint[]) AS named (key, claim)
), late AS MATERIALIZED (
    -- Waits for an owner that is taking the task at this moment: the answer must be final.
    SELECT ready.*
    FROM (SELECT named.key, named.claim FROM named ORDER BY named.key) AS named
    CROSS JOIN LATERAL (
        SELECT ready.lo AS key, ready.claim, ready.tries, ready.completed, ready.aborted,
               ready.actor, ready.status, ready.action, ready.ready_at
        FROM stint.ready
        WHERE ready.lo = named.key AND ready.claim = named.claim
          AND ready.late
          AND ($3::text IS NULL OR ready.actor = $3::text)
          AND ($5::boolean OR (SELECT true
                               FROM stint.limits
                               WHERE limits.action = ready.action) IS NULL)
        FOR UPDATE
    ) AS ready
), gone AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT late.key FROM late))
    RETURNING ready.lo AS key
), undone AS (
    -- The try has not ended after all.
    DELETE FROM stint.tries
    USING (
        SELECT tries.tid
        FROM late
        CROSS JOIN LATERAL (
            SELECT tries.ctid AS tid
            FROM stint.tries
            WHERE tries.key = late.key AND tries.claim = late.claim
            OFFSET 0
        ) AS tries
    ) AS before
    WHERE tries.ctid = before.tid
    RETURNING tries.claim, tries.owned_at
), uncounted AS (
    -- Nor was the task lost.
    UPDATE stint.losses
    SET losses = losses.losses - 1, tries = losses.tries - 1
    FROM (
        SELECT counted.tid
        FROM late
        CROSS JOIN LATERAL (
            SELECT losses.ctid AS tid
            FROM stint.losses
            WHERE losses.key = late.key AND losses.tries = late.tries
            OFFSET 0
        ) AS counted
    ) AS before
    WHERE losses.ctid = before.tid
), owner AS MATERIALIZED (
    SELECT late.claim, late.actor, count(*) AS size,
           array_agg(ARRAY[late.key, late.key] ORDER BY late.key) AS spans,
           -- Parts below 0 say that a claim is remembered.
           coalesce((SELECT max(lease.part) + 1
                     FROM stint.leases AS lease
                     WHERE lease.claim = late.claim AND lease.part >= 0), 0) AS part
    FROM late
    GROUP BY late.claim, late.actor
), lease AS (
    -- The lease counts as expired until it is extended.
    INSERT INTO stint.leases (claim, part, actor, session, deadline, size, spans, owned_at)
    SELECT owner.claim, owner.part, owner.actor, $4::bigint, statement_timestamp(), owner.size,
           owner.spans,
           coalesce((SELECT min(undone.owned_at) FROM undone WHERE undone.claim = owner.claim),
                    statement_timestamp())
    FROM owner
)
-- When it became ready before its owner was given it is not known any more: it counts as if that
-- had been when it was given.
INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted, status, ready_at,
                          limited_action)
SELECT late.key, late.key, late.claim, late.tries, owner.part, late.completed, late.aborted,
       late.status, late.ready_at,
       (SELECT limits.action FROM stint.limits WHERE limits.action = late.action)
FROM late
JOIN owner ON owner.claim = late.claim
