-- name: older_sessions
--
-- Counts the sessions of stores that do not know of limits: of releases before version 2 of the
-- schema. One that is gone counts as long as it may come back.
SELECT count(*)
FROM stint.sessions
WHERE sessions.schema_version < 2
  AND coalesce(sessions.gone_at + sessions.grace > statement_timestamp(), true)
