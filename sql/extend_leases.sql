-- name: extend_leases
--
-- Extends the leases of the tasks with keys from $1 to $2 and claims $3 for actor $4. Returns spans
-- of those that it still owns, and whether it has to be asked again.
--
--   $1 lo      bigint[]
--   $2 hi      bigint[]
--   $3 claims  bigint[]
--   $4 actor   text
--   $5 lease   interval, null: for ever
--
-- The usual heartbeat names all that is left of each hand-out and costs one update per hand-out,
-- however many tasks there are. If it names only some of them, these get a part of the lease with
-- a deadline of their own, since the others shall expire; they must have been carved out of their
-- spans, which somebody else may have been doing, too: again tells of these, and of those whose row
-- has a new version since the statement began. A task that is locked
-- is being returned at this moment; it is reported as owned and left alone, so that nobody waits
-- for the caller's transaction it may be returned in.
--
-- The leases have been locked by lock_leases. LATERAL with OFFSET 0 is a fence, as in return_tasks.
WITH named AS MATERIALIZED (
    SELECT DISTINCT named.lo, named.hi, named.claim
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS named (lo, hi, claim)
), held AS MATERIALIZED (
    SELECT greatest(leased.lo, named.lo) AS lo, least(leased.hi, named.hi) AS hi,
           leased.lo AS row_lo, leased.lo >= named.lo AND leased.hi <= named.hi AS alone,
           leased.claim, leased.part, leased.version
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.lo, leased.hi, leased.claim, leased.part, leased.xmin AS version
        FROM stint.leased
        WHERE leased.lo <= named.hi AND leased.hi >= named.lo AND leased.claim = named.claim
          AND leased.lo >= coalesce(
              (SELECT before.lo
               FROM stint.leased AS before
               WHERE before.lo BETWEEN named.lo >> 10 << 10 AND named.lo
               ORDER BY before.lo DESC
               LIMIT 1),
              named.lo
          )
        OFFSET 0
    ) AS leased
    CROSS JOIN LATERAL (
        SELECT leases.actor
        FROM stint.leases
        WHERE leases.claim = leased.claim AND leases.part = leased.part
        OFFSET 0
    ) AS lease
    WHERE lease.actor = $4::text
), asked AS MATERIALIZED (
    SELECT held.claim, held.part, sum(held.hi - held.lo + 1) AS size
    FROM held
    GROUP BY held.claim, held.part
), locked AS MATERIALIZED (
    -- A subscript of an array that is packed unpacks all of it: that is done here, once.
    SELECT lease.*, lease.packed || '{}'::bigint[] AS spans, asked.size AS asked,
           greatest(lease.deadline, coalesce(statement_timestamp() + $5::interval, 'infinity'))
               AS extended
    FROM asked
    CROSS JOIN LATERAL (
        SELECT leases.ctid AS tid, leases.claim, leases.part, leases.actor, leases.session,
               leases.owned_at, leases.deadline, leases.size, leases.spans AS packed
        FROM stint.leases
        WHERE leases.claim = asked.claim AND leases.part = asked.part
        OFFSET 0
    ) AS lease
), lease AS MATERIALIZED (
    SELECT locked.*, locked.asked = locked.size OR locked.asked = (
        SELECT sum(leased.hi - leased.lo + 1)
        FROM generate_subscripts(locked.spans, 1) AS span (n)
        JOIN stint.leased
          ON leased.lo BETWEEN locked.spans[span.n][1] AND locked.spans[span.n][2]
        WHERE leased.claim = locked.claim AND leased.part = locked.part
    ) AS whole
    FROM locked
), extended AS (
    UPDATE stint.leases
    SET deadline = lease.extended
    FROM lease
    WHERE lease.whole AND leases.ctid = lease.tid
), free AS MATERIALIZED (
    SELECT leased.lo, leased.hi, leased.tid, leased.version = held.version AS seen,
           lease.tid AS lease_tid, lease.claim, lease.part, lease.actor, lease.session,
           lease.owned_at, lease.extended
    FROM lease
    JOIN held ON held.claim = lease.claim AND held.part = lease.part
    CROSS JOIN LATERAL (
        SELECT leased.lo, leased.hi, leased.ctid AS tid, leased.xmin AS version
        FROM stint.leased
        WHERE leased.lo = held.row_lo AND leased.claim = held.claim AND leased.part = held.part
        FOR UPDATE SKIP LOCKED
    ) AS leased
    WHERE NOT lease.whole AND held.alone
), few AS MATERIALIZED (
    SELECT free.*,
           (SELECT max(other.part) FROM stint.leases AS other WHERE other.claim = free.claim)
               + dense_rank() OVER (PARTITION BY free.claim ORDER BY free.part) AS new_part
    FROM free
    WHERE free.seen
), moved AS (
    UPDATE stint.leased
    SET part = few.new_part
    FROM few
    WHERE leased.ctid = few.tid
), split AS (
    INSERT INTO stint.leases (claim, part, actor, session, owned_at, deadline, size, spans)
    SELECT few.claim, few.new_part, few.actor, few.session, few.owned_at, few.extended,
           sum(few.hi - few.lo + 1), array_agg(ARRAY[few.lo, few.hi] ORDER BY few.lo)
    FROM few
    GROUP BY few.claim, few.new_part, few.actor, few.session, few.owned_at, few.extended
), shrunk AS (
    UPDATE stint.leases
    SET size = leases.size - part.size
    FROM (
        SELECT few.lease_tid, sum(few.hi - few.lo + 1) AS size FROM few GROUP BY few.lease_tid
    ) AS part
    WHERE leases.ctid = part.lease_tid
)
SELECT held.lo, held.hi, held.claim,
       CASE WHEN held.alone
            THEN held.row_lo = ANY (ARRAY(SELECT free.lo FROM free WHERE NOT free.seen))
            ELSE (SELECT NOT lease.whole
                  FROM lease
                  WHERE lease.claim = held.claim AND lease.part = held.part)
       END AS again
FROM held
