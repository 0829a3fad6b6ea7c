-- name: forget_unattended
--
-- Forgets remote actors that were attended by stores without a session, a day ago and before:
-- nothing else tells that such a store is gone. If it is not, it notes the actor anew within a
-- minute.
DELETE FROM stint.actors
WHERE actors.attendant = 0 AND actors.since < statement_timestamp() - interval '1 day'
