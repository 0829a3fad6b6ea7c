-- name: spend_claim
--
-- Lets nothing be handed out under claim $1 any more, for ten minutes, and marks the claim as
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
