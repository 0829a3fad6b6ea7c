-- name: attend_session
--
-- Makes the session known: the topics that it wants to hear of, and the actors that are registered
-- at it.
--
--   $1 session  bigint
--   $2 grace    interval
--   $3 watches  boolean
--   $4 topics   text[]
--   $5 actors   text[]
--   $6 actions  text[]: element i is an action of actor i; an actor may come several times
WITH session AS (
    INSERT INTO stint.sessions (id, grace, watches, topics, schema_version)
    VALUES ($1::bigint, $2::interval, $3::boolean, $4::text[], 2)
    ON CONFLICT (id) DO UPDATE
    -- A session that others found gone has come back.
    SET gone_at = NULL, watches = excluded.watches, topics = excluded.topics
), gone AS (
    -- These actors are not registered any more. A condition <> ALL ($5) would compare each actor
    -- with each element.
    DELETE FROM stint.actors
    WHERE actors.session = $1::bigint AND actors.actor = ANY (ARRAY(
        SELECT known.actor FROM stint.actors AS known WHERE known.session = $1::bigint
        EXCEPT
        SELECT unnest($5::text[])
    ))
)
-- Each change of the session comes with all of its actors, of which there may be thousands: those
-- that are known as they are, are not even locked.
INSERT INTO stint.actors (session, attendant, actor, actions)
SELECT $1::bigint, $1::bigint, changed.actor, changed.actions
FROM (
    SELECT named.actor, array_agg(DISTINCT named.action) AS actions
    FROM unnest($5::text[], $6::text[]) AS named (actor, action)
    GROUP BY named.actor
    EXCEPT
    SELECT known.actor, known.actions FROM stint.actors AS known WHERE known.session = $1::bigint
) AS changed
ON CONFLICT (session, actor) DO UPDATE
SET actions = excluded.actions
