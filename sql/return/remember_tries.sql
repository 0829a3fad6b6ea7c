-- name: remember_tries
--
-- Keeps tries that return_tasks, behind it in the same transaction, is about to end. Element i of
-- each array belongs to a span of returns, as in return_tasks; those to keep are of one task, which
-- has been split off. What is not owned with this claim is passed over, as return_tasks does.
--
--   $1 lo              bigint[], sorted
--   $2 hi              bigint[]
--   $3 claims          bigint[]
--   $4 kept            boolean[]
--   $5 outcomes        smallint[], as of return_tasks
--   $6 posts           boolean[]
--   $7 statuses        text[]
--   $8 logs            text[]
--   $9 keep_completed  boolean
--   $10 keep_aborted   boolean
WITH named AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::smallint[], $6::boolean[],
        $7::text[], $8::text[]
    ) AS named (lo, hi, claim, kept, outcome, posts, status, log)
), owned AS MATERIALIZED (
    -- The lock lets nobody else end the try first, so return_tasks ends what is kept here. All rows
    -- are locked, in the order in which it deletes them: overlapping batches do not deadlock.
    SELECT named.*, leased.tries, leased.part, leased.said
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.tries, leased.part, leased.status AS said
        FROM stint.leased
        WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
          AND leased.claim = named.claim
        ORDER BY leased.lo
        FOR UPDATE
    ) AS leased
)
INSERT INTO stint.tries (key, claim, owned_at, tries, outcome, actor, status, log)
SELECT owned.lo, owned.claim, lease.owned_at, owned.tries, owned.outcome, lease.actor,
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
WHERE owned.kept
  AND (owned.outcome >= 2 OR owned.posts
       OR CASE owned.outcome WHEN 0 /* completed */ THEN $9::boolean ELSE $10::boolean END
       OR (SELECT true FROM stint.edges WHERE edges.after = owned.lo LIMIT 1))
