-- name: lock_limiting
--
-- Makes those who set limits or pause take turns, until the end of the transaction: each sees what
-- the one before has left. Nobody else waits.
SELECT supported.since
FROM stint.supported
FOR UPDATE
