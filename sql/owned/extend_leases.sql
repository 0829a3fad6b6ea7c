-- name: extend_leases
--
-- Extends the leases of tasks for actor $4, as far as it still owns them, and shortens none.
-- Returns the spans that it still owns, clipped to those given, and for each whether the caller has
-- to split its tasks off and ask again.
--
--   $1 lo      bigint[]
--   $2 hi      bigint[]: element i is a span of tasks
--   $3 claims  bigint[]: the claim of span i
--   $4 actor   text
--   $5 lease   interval, null: for ever
--   $6 session bigint: what leases are bound to that are bound to none, or null
--
-- The usual heartbeat names all tasks that are left of each fetch, and costs one update for each
-- fetch, however many tasks there are. If it names only some of them, these get a part of the
-- lease with a deadline of its own, since the others shall expire.
--
-- lock_leases has locked the leases. LATERAL with OFFSET 0 is a fence, as in return_tasks.
WITH named AS MATERIALIZED (
    SELECT DISTINCT named.lo, named.hi, named.claim
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS named (lo, hi, claim)
), held AS MATERIALIZED (
    -- The rows of leased with tasks of a span given. lo and hi are the tasks of the span in the
    -- row, alone says that the row holds no others. A row that holds the first key of the span is
    -- the last that begins in the key's block of 1,024, at the key or ahead of it.
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
    -- How many tasks of each lease are named.
    SELECT held.claim, held.part, sum(held.hi - held.lo + 1) AS size
    FROM held
    GROUP BY held.claim, held.part
), locked AS MATERIALIZED (
    -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
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
    -- whole says that all tasks that are left of the lease are named: all that were fetched, or
    -- all that are still owned.
    SELECT locked.*, locked.asked = locked.size OR locked.asked = (
        SELECT sum(leased.hi - leased.lo + 1)
        FROM generate_subscripts(locked.spans, 1) AS span (n)
        JOIN stint.leased
          ON leased.lo BETWEEN locked.spans[span.n][1] AND locked.spans[span.n][2]
        WHERE leased.claim = locked.claim AND leased.part = locked.part
    ) AS whole
    FROM locked
), extended AS (
    -- The usual heartbeat.
    UPDATE stint.leases
    SET deadline = lease.extended, session = coalesce(leases.session, $6::bigint)
    FROM lease
    WHERE lease.whole AND leases.ctid = lease.tid
), free AS MATERIALIZED (
    -- The rows of leases of which only some tasks are named. A row that is locked is being returned
    -- at this moment: it is reported as owned and left alone, so that nobody waits for the caller's
    -- transaction in which it may be returned. seen says that the row has no new version since the
    -- statement began.
    SELECT leased.lo, leased.hi, leased.tid, leased.version = held.version AS seen,
           lease.tid AS lease_tid, lease.claim, lease.part, lease.actor, lease.session,
           lease.owned_at, lease.extended
    FROM lease
    JOIN held ON held.claim = lease.claim AND held.part = lease.part
    CROSS JOIN LATERAL (
        SELECT leased.lo, leased.hi, leased.ctid AS tid, leased.xmin AS version
        FROM stint.leased
        WHERE leased.lo = held.row_lo AND leased.claim = held.claim AND leased.part = held.part
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS leased
    WHERE NOT lease.whole AND held.alone
), few AS MATERIALIZED (
    -- The others get a part of their lease of their own: the next one of the claim.
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
    SELECT few.claim, few.new_part, few.actor, coalesce(few.session, $6::bigint), few.owned_at,
           few.extended,
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
-- The caller has to ask again for tasks whose row has a new version since the statement began, and
-- for tasks that share their row with others although their lease is not extended whole: they must
-- be split off first, and somebody else may have been doing so at the same time.
SELECT held.lo, held.hi, held.claim,
       CASE WHEN held.alone
            THEN held.row_lo = ANY (ARRAY(SELECT free.lo FROM free WHERE NOT free.seen))
            ELSE (SELECT NOT lease.whole
                  FROM lease
                  WHERE lease.claim = held.claim AND lease.part = held.part)
       END AS again
FROM held
