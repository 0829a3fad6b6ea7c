-- name: notify
--
-- Sends the messages that somebody wants to hear, on channel $1, and returns their payloads. Where
-- nobody listens, this only reads a small table.
--
--   $1 channel   text
--   $2 topics    text[]
--   $3 payloads  text[]
--   $4 aside     boolean: nothing else is in the transaction, so it need not wait for the disk
--   $5 told      bigint: the session of those who have been told already; 0: there is none
--
-- A store that listens has committed its topics before it looks at what it waits for. This
-- statement reads the topics after what it tells of was committed. So either this finds the topic,
-- or the other has found what it waits for.
SELECT message.payload, pg_notify($1::text, message.payload),
       -- A commit that notifies holds a lock of the whole server. A message is only a hint: nobody
       -- shall wait for it.
       CASE WHEN $4::boolean THEN set_config('synchronous_commit', 'off', true) END
FROM unnest($2::text[], $3::text[]) AS message (topic, payload)
WHERE (SELECT true
       FROM stint.sessions
       -- The statement also runs behind a commit, where the search path is the caller's: so the
       -- operators are named in full.
       WHERE message.topic OPERATOR(pg_catalog.=) ANY (sessions.topics)
         AND sessions.id OPERATOR(pg_catalog.<>) $5::bigint
       LIMIT 1)
