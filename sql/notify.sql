-- name: notify
--
-- Sends those of the messages that somebody wants to hear, on channel $1. Where nobody listens,
-- this is but a look at a small table.
--
--   $1 channel   text
--   $2 topics    text[]
--   $3 payloads  text[]
--   $4 aside     boolean: nothing else is in the transaction, so it need not wait for the disk
--
-- It also goes behind a commit, where the path is the caller's: its operator is named in full.
--
-- A commit that notifies holds a lock of the whole server, and is but a hint: none shall wait for
-- it.
--
-- Whoever listens has committed its topics before it looks at what it waits for, and this looks for
-- topics after what it tells of was committed. So either this finds the topic, or the other has
-- found what it waits for.
SELECT pg_notify($1::text, message.payload),
       CASE WHEN $4::boolean THEN set_config('synchronous_commit', 'off', true) END
FROM unnest($2::text[], $3::text[]) AS message (topic, payload)
WHERE (SELECT true
       FROM stint.sessions
       WHERE message.topic OPERATOR(pg_catalog.=) ANY (sessions.topics)
       LIMIT 1)
