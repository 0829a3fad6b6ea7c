-- name: dismiss_actor
--
-- Ends the leases of a remote actor that is gone, so that reclaim_leases, in the same transaction,
-- hands its tasks on. Does nothing if a later connection of the actor is attended. Returns how many
-- leases it passed over, because somebody extends or holds them at this moment.
--
--   $1 session  bigint: of the actor
--   $2 actor    text
--   $3 epoch    bigint: of the connection that is gone
WITH dismissed AS (
    -- If the actor is being attended again at this moment, this waits, and finds the later epoch.
    DELETE FROM stint.actors
    WHERE actors.session = $1::bigint AND actors.actor = $2::text AND actors.epoch <= $3::bigint
    RETURNING actors.session
), lost AS MATERIALIZED (
    SELECT dismissed.session
    FROM dismissed
    UNION ALL
    SELECT $1::bigint -- the row is gone already
    WHERE (SELECT true
           FROM stint.actors
           WHERE actors.session = $1::bigint AND actors.actor = $2::text) IS NULL
),
-- include end_leases: session=lost.session
SELECT passed.leases AS passed FROM passed
