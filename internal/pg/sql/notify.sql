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
WHERE (
    -- include somebody_listens: told=$5
)

-- name: notify_along
--
-- Sends such messages with the commit of the transaction at hand, and returns the payloads that
-- somebody wants to hear with whether they are sent.
--
--   $1 channel   text
--   $2 topics    text[]
--   $3 payloads  text[]
--   $4 told      bigint: the session of those who have been told already; 0: there is none
--
-- A store that starts to listen between this and the commit may miss the message: it looks again
-- soon after it has looked for the first time.
SELECT message.payload,
       -- From here to the end of its commit, which waits for the disk, a transaction that notifies
       -- keeps all others of the server waiting that do. So only one at a time does, and none where
       -- commits wait for standbys as well. A full queue would make the commit fail.
       CASE WHEN current_setting('synchronous_standby_names') = ''
             AND pg_notification_queue_usage() < 0.5
             AND pg_try_advisory_xact_lock('stint.sessions'::regclass::oid::integer, 0)
            THEN pg_notify($1::text, message.payload)::text = ''
            ELSE false
       END
FROM unnest($2::text[], $3::text[]) AS message (topic, payload)
WHERE (
    -- include somebody_listens: told=$4
)
