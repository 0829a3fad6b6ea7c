-- name: snapshot_tasks
--
-- What the store has when a history begins: one statement a table, with its columns as the slot
-- names them.
SELECT tasks.key, tasks.id, tasks.action, tasks.limit_key, tasks.max_tries, tasks.on_abort,
       tasks.deadline, tasks.cost
FROM stint.tasks

-- name: snapshot_blocked
SELECT blocked.key, blocked.claim, blocked.tries
FROM stint.blocked

-- name: snapshot_scheduled
SELECT scheduled.key, scheduled.claim, scheduled.tries
FROM stint.scheduled

-- name: snapshot_ready
SELECT ready.lo, ready.hi, ready.claim, ready.tries, ready.late, ready.position
FROM stint.ready

-- name: snapshot_leased
SELECT leased.lo, leased.hi, leased.claim, leased.tries, leased.part, leased.limited_action
FROM stint.leased

-- name: snapshot_finished
SELECT finished.lo, finished.hi, finished.claim, finished.tries, finished.cause, finished.result
FROM stint.finished

-- name: snapshot_leases
SELECT leases.claim, leases.part, leases.deadline, leases.owned_at
FROM stint.leases

-- name: snapshot_edges
SELECT edges.after, edges.run, edges.accepts, edges.results
FROM stint.edges

-- name: snapshot_limits
SELECT limits.action, limits.concurrency, limits.per_key, limits.ordered, limits.rate_tasks,
       limits.rate_per, limits.rate_burst, limits.key_tasks, limits.key_per, limits.key_burst,
       limits.by_cost
FROM stint.limits

-- name: snapshot_spent
SELECT spent.action, spent.key, spent.claim, spent.limit_key, spent.more
FROM stint.spent

-- name: begin_snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: log_end
--
-- Up to where the server has written the log.
SELECT pg_current_wal_insert_lsn()::text

-- name: next_transaction
--
-- Returns the number that no transaction has yet.
SELECT pg_snapshot_xmax(pg_current_snapshot())::text

-- name: transactions_ended
--
-- Returns whether all transactions before number $1 have ended.
--
--   $1 number  text
SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8

-- name: drop_slot
--
--   $1 slot  name
SELECT pg_drop_replication_slot($1::name)

-- name: wal_behind
--
-- How many bytes of WAL the server keeps for the slot.
--
--   $1 slot  name
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), slot.restart_lsn)::bigint
FROM pg_replication_slots AS slot
WHERE slot.slot_name = $1::name
