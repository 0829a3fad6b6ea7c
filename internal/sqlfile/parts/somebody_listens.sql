-- part: somebody_listens
--
-- Whether a session but {told} wants to hear of message.topic; null if not. It also runs where the
-- search path is the caller's: so the operators are named in full.
SELECT true
FROM stint.sessions
WHERE message.topic OPERATOR(pg_catalog.=) ANY (sessions.topics)
  AND sessions.id OPERATOR(pg_catalog.<>) {told}::bigint
LIMIT 1
