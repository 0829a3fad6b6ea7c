-- name: bar_claim
--
-- Keeps own_tasks from fetching anything more under claim $1, after its answer was lost. It
-- inserts a lease with this claim: that waits for an own_tasks that is about to commit, and makes
-- an own_tasks that comes later fail. The lease holds no tasks, so maintenance drops it once it has
-- expired.
--
--   $1 claim  bigint
--   $2 actor  text
INSERT INTO stint.leases (claim, actor, deadline, size, spans)
VALUES ($1::bigint, $2::text, statement_timestamp() + '1 minute'::interval, 0, '{}'::bigint[])
ON CONFLICT DO NOTHING

-- name: spend_claim
--
-- Lets nothing be fetched under claim $1 any more, for ten minutes, and marks the claim as
-- spent. A row of remember_claim that is there already stays as it is unless $3 says otherwise:
-- whoever has repeated the call is responsible for the tasks. A row of an earlier
-- spend_claim, whose
-- caller may not know of it, is renewed in any case.
--
--   $1 claim  bigint
--   $2 actor  text
--   $3 all    boolean
INSERT INTO stint.leases AS remembered (claim, part, actor, deadline, size, spans)
VALUES ($1::bigint, -1, $2::text, statement_timestamp() + '10 minutes'::interval, -1,
        '{}'::bigint[])
ON CONFLICT (claim, part) DO UPDATE
SET size = excluded.size, deadline = excluded.deadline
WHERE $3::boolean OR remembered.size < 0
RETURNING remembered.claim
