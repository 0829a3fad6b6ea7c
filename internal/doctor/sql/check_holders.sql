-- name: check_holders
--
-- Returns what keeps vacuum from removing dead rows: open transactions, prepared transactions and
-- replication slots, with how long each has been there and how many transactions have begun since.
-- A role sees no more of the sessions of others than that they are there, unless it may read all
-- statistics.
SELECT held.kind, held.name, held.application, held.role, held.state, held.since, held.transactions
FROM (
    SELECT 'process' AS kind, activity.pid::text AS name,
           coalesce(activity.application_name, '') AS application,
           coalesce(activity.usename::text, '') AS role, coalesce(activity.state, '') AS state,
           statement_timestamp() - activity.xact_start AS since,
           coalesce(greatest(age(activity.backend_xmin), age(activity.backend_xid)), 0)::bigint
               AS transactions
    FROM pg_stat_activity AS activity
    WHERE activity.pid <> pg_backend_pid()
      -- Vacuum does not wait for other databases, nor for its own workers. A walsender is in no
      -- database.
      AND (activity.datname = current_database() OR activity.datname IS NULL)
      AND activity.backend_type <> 'autovacuum worker'
      AND (activity.xact_start IS NOT NULL OR activity.backend_xmin IS NOT NULL)
    UNION ALL
    SELECT 'prepared transaction', prepared.gid, '', prepared.owner::text, '',
           statement_timestamp() - prepared.prepared, age(prepared.transaction)::bigint
    FROM pg_prepared_xacts AS prepared
    WHERE prepared.database = current_database()
    UNION ALL
    SELECT 'replication slot', slot.slot_name::text, '', '',
           CASE WHEN slot.active THEN 'active' ELSE 'inactive' END, NULL, age(slot.xmin)::bigint
    FROM pg_replication_slots AS slot
    WHERE slot.xmin IS NOT NULL
) AS held
ORDER BY held.transactions DESC, held.since DESC NULLS LAST
LIMIT 20
