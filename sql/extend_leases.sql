-- name: extend_leases
--
-- Extends the leases of the tasks with keys $1 and claims $2 for actor $3, and returns key and
-- claim of those that it still owns.
--
--   $1 keys    bigint[]
--   $2 claims  bigint[]
--   $3 actor   text
--   $4 lease   interval, null: for ever
--
-- The usual heartbeat names all that is left of each hand-out and costs one update per hand-out,
-- however many tasks there are. If it names only some of them, these get a part of the lease with
-- a deadline of their own, since the others shall expire. A task that is locked is being returned
-- at this moment; it is reported as owned and left alone, so that nobody waits for the caller's
-- transaction it may be returned in.
--
-- The leases have been locked by lock_leases. LATERAL with OFFSET 0 is a fence, as in return_tasks.
WITH named AS MATERIALIZED (
    SELECT DISTINCT named.key, named.claim
    FROM unnest($1::bigint[], $2::bigint[]) AS named (key, claim)
), held AS MATERIALIZED (
    SELECT leased.key, leased.claim, leased.part
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.key, leased.claim, leased.part
        FROM stint.leased
        WHERE leased.key = named.key AND leased.claim = named.claim
        OFFSET 0
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT leases.actor
        FROM stint.leases
        WHERE leases.claim = leased.claim AND leases.part = leased.part
        OFFSET 0
    ) AS lease
    WHERE lease.actor = $3::text
), asked AS MATERIALIZED (
    SELECT held.claim, held.part, count(*) AS size
    FROM held
    GROUP BY held.claim, held.part
), locked AS MATERIALIZED (
    SELECT lease.*, asked.size AS asked,
           greatest(lease.deadline, coalesce(statement_timestamp() + $4::interval, 'infinity'))
               AS extended
    FROM asked
    CROSS JOIN LATERAL (
        SELECT leases.*, leases.ctid AS tid
        FROM stint.leases
        WHERE leases.claim = asked.claim AND leases.part = asked.part
        OFFSET 0
    ) AS lease
), lease AS MATERIALIZED (
    SELECT locked.*, locked.asked = locked.size OR locked.asked = (
        SELECT count(*)
        FROM generate_subscripts(locked.spans, 1) AS span (n)
        JOIN stint.leased
          ON leased.key BETWEEN locked.spans[span.n][1] AND locked.spans[span.n][2]
        WHERE leased.claim = locked.claim AND leased.part = locked.part
    ) AS whole
    FROM locked
), extended AS (
    UPDATE stint.leases
    SET deadline = lease.extended
    FROM lease
    WHERE lease.whole AND leases.ctid = lease.tid
), few AS MATERIALIZED (
    SELECT leased.key, leased.tid, lease.tid AS lease_tid, lease.claim, lease.part, lease.actor,
           lease.session, lease.extended,
           (SELECT max(other.part) FROM stint.leases AS other WHERE other.claim = lease.claim)
               + dense_rank() OVER (PARTITION BY lease.claim ORDER BY lease.part) AS new_part
    FROM lease
    JOIN held ON held.claim = lease.claim AND held.part = lease.part
    CROSS JOIN LATERAL (
        SELECT leased.key, leased.ctid AS tid
        FROM stint.leased
        WHERE leased.key = held.key AND leased.claim = held.claim AND leased.part = held.part
        FOR UPDATE SKIP LOCKED
    ) AS leased
    WHERE NOT lease.whole
), moved AS (
    UPDATE stint.leased
    SET part = few.new_part
    FROM few
    WHERE leased.ctid = few.tid
), split AS (
    INSERT INTO stint.leases (claim, part, actor, session, deadline, size, spans)
    SELECT few.claim, few.new_part, few.actor, few.session, few.extended, count(*),
           array_agg(ARRAY[few.key, few.key] ORDER BY few.key)
    FROM few
    GROUP BY few.claim, few.new_part, few.actor, few.session, few.extended
), shrunk AS (
    UPDATE stint.leases
    SET size = leases.size - part.size
    FROM (SELECT few.lease_tid, count(*) AS size FROM few GROUP BY few.lease_tid) AS part
    WHERE leases.ctid = part.lease_tid
)
SELECT held.key, held.claim
FROM held
WHERE held.claim = ANY (ARRAY(SELECT lease.claim FROM lease))
