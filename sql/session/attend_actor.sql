-- name: attend_actor
--
-- Notes that the store with session $3 attends a remote actor, unless a later connection of the
-- actor is attended. Returns whether one is. A repetition that changes nothing writes nothing.
--
--   $1 session    bigint: of the actor
--   $2 actor      text
--   $3 attendant  bigint
--   $4 epoch      bigint
--   $5 actions    text[]
WITH attended AS (
    INSERT INTO stint.actors (session, actor, attendant, epoch, actions)
    VALUES ($1::bigint, $2::text, $3::bigint, $4::bigint, $5::text[])
    ON CONFLICT (session, actor) DO UPDATE
    SET attendant = excluded.attendant, epoch = excluded.epoch, actions = excluded.actions
    WHERE actors.epoch < excluded.epoch
       OR (actors.epoch = excluded.epoch
           AND (actors.attendant <> excluded.attendant OR actors.actions <> excluded.actions))
)
SELECT coalesce((
    SELECT actors.epoch > $4::bigint
    FROM stint.actors
    WHERE actors.session = $1::bigint AND actors.actor = $2::text
), false) AS superseded
