-- part: living_sessions
--
-- The numbers of the sessions that live, which hold their locks; not known on a standby.
SELECT classid::bigint << 32 | objid::bigint
FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
