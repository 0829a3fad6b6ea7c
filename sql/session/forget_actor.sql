-- name: forget_actor
--
-- Notes that a remote actor has left, unless a later connection of it is attended. Its leases stay.
--
--   $1 session  bigint: of the actor
--   $2 actor    text
--   $3 epoch    bigint
DELETE FROM stint.actors
WHERE actors.session = $1::bigint AND actors.actor = $2::text AND actors.epoch <= $3::bigint
