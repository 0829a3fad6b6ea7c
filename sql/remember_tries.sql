-- name: remember_tries
--
-- Keeps tries that return_tasks, behind it in the same transaction, is about to end. Element i of
-- each array is a return; the tasks have been carved out of their spans. What is not owned with
-- this claim is passed over, as return_tasks does.
--
--   $1 keys            bigint[], sorted
--   $2 claims          bigint[]
--   $3 outcomes        smallint[], as of return_tasks
--   $4 posts           boolean[]
--   $5 statuses        text[]
--   $6 logs            text[]
--   $7 keep_completed  boolean
--   $8 keep_aborted    boolean
WITH named AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::bigint[], $2::bigint[], $3::smallint[], $4::boolean[], $5::text[], $6::text[]
    ) AS named (key, claim, outcome, posts, status, log)
), owned AS MATERIALIZED (
    -- The lock lets nobody else end the try first, so return_tasks ends what is kept here.
    SELECT named.*, leased.tries, leased.part, leased.said
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.tries, leased.part, leased.status AS said
        FROM stint.leased
        WHERE leased.lo = named.key AND leased.hi = named.key AND leased.claim = named.claim
        FOR UPDATE
    ) AS leased
), expired AS (
    -- A try that expired is as its late owner says.
    DELETE FROM stint.tries
    USING (
        SELECT tries.tid
        FROM owned
        CROSS JOIN LATERAL (
            SELECT tries.ctid AS tid
            FROM stint.tries
            WHERE tries.key = owned.key AND tries.claim = owned.claim
            OFFSET 0
        ) AS tries
    ) AS before
    WHERE tries.ctid = before.tid
)
INSERT INTO stint.tries (key, claim, owned_at, tries, outcome, actor, status, log)
SELECT owned.key, owned.claim, lease.owned_at, owned.tries, owned.outcome, lease.actor,
       CASE owned.outcome WHEN 3 /* released */ THEN coalesce(owned.status, owned.said)
                          ELSE owned.status END,
       owned.log
FROM owned
CROSS JOIN LATERAL (
    SELECT leases.actor, leases.owned_at
    FROM stint.leases
    WHERE leases.claim = owned.claim AND leases.part = owned.part
    OFFSET 0
) AS lease
-- The history of a task that return_tasks drops would only have to be dropped, too.
WHERE owned.outcome >= 2 OR owned.posts
   OR CASE owned.outcome WHEN 0 /* completed */ THEN $7::boolean ELSE $8::boolean END
   OR (SELECT true FROM stint.edges WHERE edges.after = owned.key LIMIT 1)
