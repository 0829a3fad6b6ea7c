-- name: bar_claim
--
-- Lets own_tasks hand out nothing any more under claim $1, after its answer was lost: this waits
-- for one that is about to commit, and one that comes later fails. The lease holds nothing, so that
-- maintenance drops it.
--
--   $1 claim  bigint
--   $2 actor  text
INSERT INTO stint.leases (claim, actor, deadline, size, spans)
VALUES ($1::bigint, $2::text, statement_timestamp() + '1 minute'::interval, 0, '{}'::bigint[])
ON CONFLICT DO NOTHING
