-- name: own_tasks
-- variants: own_few, own_singly
--
-- Hands the first $3 ready tasks of the actions $4 to actor $2, under one lease for all.
--
--   $1 claim      bigint, made by the caller: the part of the tokens that is new
--   $2 actor      text
--   $3 max_tasks  integer
--   $4 actions    text[]
--   $5 lease      interval, null: for ever
--   $6 session    bigint, that of the actor, or null
--   $7 from_rank  bigint[]
--   $8 to_rank    bigint[]: where in the queue of each action to look; an action may come several
--                 times, with ranks that do not overlap
--   $9 spread     boolean: to take a span of each queue, if nothing was fetched yet
--   $10 chosen    boolean: to fetch nothing under a claim that is known already
--   $11 bytes     integer: of all bodies together, about
--   $12 piece     integer: of one body
--   $13 short     integer: of a body that comes however many there are
--
-- Longer bodies are left out, and read by read_bodies once the tasks are owned: a slow line would
-- otherwise hold up the commit, and a caller that gives up would not know what it was given.
--
-- If some of the actions have limits, nothing is fetched: own_limited does that for all of them.
-- Those with limits come with the answer, in rows with the key 0.
--
-- A row of ready is a span of up to 1,000 tasks, so a bulk fetch moves a row or two from here to
-- leased, however many tasks there are; their definitions are only read. An example: of the queues
--
--   a  [1..1000] rank 10  [1001..1001] rank 12      b  [2000..2004] rank 11
--
-- a caller that wants 600 gets 1 to 600; 601 to 800 and 801 to 1000 go back as two spans. One that
-- wants 1,004 gets 1 to 1000 and 2000 to 2003, by priority and age; 2004 goes back.
--
-- MATERIALIZED keeps each LIMIT a limit: joined freely, the planner may run it once per outer row.
--
-- own_few is for callers of two queues at most: to carry along what only those of many need cost
-- 8 % of a fetch of 16 tasks. own_singly is for tasks that their owners will return one by one:
-- each gets a row of leased of its own, so that no return has to cut it out of a shared one.
WITH limited AS MATERIALIZED (
    SELECT named.action
    FROM unnest($4::text[]) AS named (action)
    WHERE (SELECT true FROM stint.limits WHERE limits.action = named.action) IS NOT NULL
), queue AS (
    -- A spread follows another own_tasks in the same transaction: none, if that fetched
    -- something. A claim that the caller has chosen may have been used before.
    SELECT *
    FROM unnest($4::text[], $7::bigint[], $8::bigint[]) AS queue (action, from_rank, to_rank)
    WHERE (NOT ($9::boolean OR $10::boolean)
           OR (SELECT true FROM stint.leases WHERE leases.claim = $1::bigint LIMIT 1) IS NULL)
      AND (SELECT limited.action FROM limited LIMIT 1) IS NULL
), head AS MATERIALIZED (
    -- The head of each queue is looked at without locking, only to share $3 out among the queues by
    -- priority and age. A queue that was long worked at begins with the dead entries of tasks that
    -- were taken, which every scan walks as long as some transaction is older than them: from_rank
    -- and to_rank let the caller leave them out.
    SELECT queue.*, span.priority, span.rank, span.hi, span.hi - span.lo + 1 AS size
    FROM queue
    CROSS JOIN LATERAL (
        SELECT ready.priority, ready.rank, ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.action = queue.action
          AND ready.rank BETWEEN queue.from_rank AND queue.to_rank
          AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT CASE
                  WHEN $9::boolean THEN 1
                  ELSE least($3::integer, 2 * $3::integer / cardinality($4::text[]) + 1)
              END
    ) AS span
-- unless own_few, own_singly
), summed AS MATERIALIZED (
    SELECT head.*, (sum(head.size) OVER first_to_last)::bigint AS upto
    FROM head
    WHERE NOT $9::boolean -- otherwise head has all
    WINDOW first_to_last AS (ORDER BY head.rank, head.hi)
), longer AS MATERIALIZED (
    -- Twice the mean is looked at first, in each queue. Where there may be more, and the queues do
    -- not hold $3 tasks up to there, the scan goes on: up to the rank at which they do, and by as
    -- many spans as tasks are missing.
    SELECT looked.action, looked.from_rank, looked.to_rank, span.priority, span.rank, span.hi,
           span.hi - span.lo + 1 AS size
    FROM (
        SELECT summed.action, summed.from_rank, summed.to_rank, max(summed.rank) AS rank,
               (array_agg(summed.hi ORDER BY summed.rank DESC, summed.hi DESC))[1] AS hi,
               max(summed.upto) AS upto
        FROM summed
        GROUP BY summed.action, summed.from_rank, summed.to_rank
        HAVING max(summed.upto) < $3::integer
           AND count(*) > 2 * $3::integer / cardinality($4::text[])
    ) AS looked
    CROSS JOIN LATERAL (
        SELECT ready.priority, ready.rank, ready.lo, ready.hi
        FROM stint.ready
        WHERE ready.action = looked.action
          AND (ready.rank, ready.hi) OPERATOR(pg_catalog.>) (looked.rank, looked.hi)
          AND ready.rank <= least(
              looked.to_rank,
              (SELECT min(summed.rank) FROM summed WHERE summed.upto >= $3::integer))
          AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT $3::integer - looked.upto
    ) AS span
-- end
), floor AS MATERIALIZED (
    -- The rank of the first row with an action and a priority, even if somebody else is taking it:
    -- the caller's next scan may begin there. And how many tasks were met.
    SELECT head.action, head.priority, min(head.rank) AS rank, sum(head.size)::bigint AS tasks
    FROM head
    GROUP BY head.action, head.priority
), share AS (
    -- How many spans of each queue are among the first that hold $3 tasks. Spans that others are
    -- taking count. Where they make up all of a share, an open transaction would keep the caller
    -- from all other queues: a spread takes one of each queue then.
    SELECT counted.action, counted.from_rank, counted.to_rank,
           CASE WHEN $9::boolean THEN 1 ELSE count(*) END AS spans
    FROM (
        SELECT met.*, sum(met.size) OVER first_to_last - met.size AS before
        FROM (
            SELECT head.* FROM head
-- unless own_few, own_singly
            UNION ALL
            SELECT longer.* FROM longer
-- end
        ) AS met
        WINDOW first_to_last AS (ORDER BY met.rank, met.hi)
    ) AS counted
    WHERE $9::boolean OR counted.before < $3::integer
    GROUP BY counted.action, counted.from_rank, counted.to_rank
    ORDER BY min(counted.rank)
), picked AS MATERIALIZED (
    -- Locks as many spans of each queue as its share. ORDER BY and LIMIT run along ready_order, and
    -- SKIP LOCKED goes on past spans that others are taking, so that nobody waits, and nothing is
    -- locked that is not fetched. A spread locks no more spans than tasks are asked for.
    SELECT span.*
    FROM share
    CROSS JOIN LATERAL (
        SELECT ready.*
        FROM stint.ready
        WHERE ready.action = share.action
          AND ready.rank BETWEEN share.from_rank AND share.to_rank
          AND (ready.deadline IS NULL OR ready.deadline > statement_timestamp())
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT share.spans
        FOR UPDATE SKIP LOCKED
    ) AS span
    LIMIT $3::integer -- no more are locked where many queues are looked at
), taken AS MATERIALIZED (
    -- The last span is taken up to the task that fills $3.
    SELECT counted.*, least(counted.hi, counted.lo + $3::integer - counted.before - 1) AS last
    FROM (
        SELECT picked.*,
               (sum(picked.hi - picked.lo + 1) OVER first_to_last)::bigint
                   - (picked.hi - picked.lo + 1) AS before
        FROM picked
        WINDOW first_to_last AS (ORDER BY picked.rank, picked.hi)
    ) AS counted
    WHERE counted.before < $3::integer
), gone AS (
    DELETE FROM stint.ready
    WHERE ready.lo = ANY (ARRAY(SELECT taken.lo FROM taken))
), rest AS (
    -- What is left of the last span goes back in two halves, so that many small fetches soon find
    -- a span each instead of passing over the one that is locked.
    INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted,
                             ready_at)
    SELECT taken.position, half.lo, half.hi, taken.action, taken.priority, taken.tries,
           taken.completed, taken.aborted, taken.ready_at
    FROM taken
    CROSS JOIN LATERAL (
        VALUES (taken.last + 1, (taken.last + taken.hi + 1) / 2),
               ((taken.last + taken.hi + 1) / 2 + 1, taken.hi)
    ) AS half (lo, hi)
    WHERE half.lo <= half.hi
), leased AS (
    INSERT INTO stint.leased (lo, hi, claim, tries, completed, aborted, status, ready_at)
-- unless own_singly
    SELECT taken.lo, taken.last, $1::bigint, taken.tries + 1, taken.completed, taken.aborted,
           taken.status, taken.ready_at
    FROM taken
-- end
    -- in own_singly: SELECT one.key, one.key, $1::bigint, taken.tries + 1, taken.completed,
    -- in own_singly:        taken.aborted, taken.status, taken.ready_at
    -- in own_singly: FROM taken
    -- in own_singly: CROSS JOIN LATERAL generate_series(taken.lo, taken.last) AS one (key)
), lease AS (
    -- One lease for all, with the bounds of its spans: a heartbeat goes by them.
    INSERT INTO stint.leases (claim, actor, session, deadline, size, spans)
    SELECT $1::bigint, $2::text, $6::bigint,
           coalesce(statement_timestamp() + $5::interval, 'infinity'),
           sum(taken.last - taken.lo + 1),
           array_agg(ARRAY[taken.lo, taken.last] ORDER BY taken.before)
    FROM taken
    HAVING count(*) > 0
), inline AS MATERIALIZED (
    SELECT least(
               $12::integer, greatest($13::integer, $11::integer / sum(taken.last - taken.lo + 1))
           )::integer AS most
    FROM taken
)
SELECT task.key, task.id, task.action,
       CASE WHEN octet_length(task.body) <= (SELECT inline.most FROM inline) THEN task.body END,
       octet_length(task.body), taken.tries + 1 AS tries, task.max_tries,
       coalesce(statement_timestamp() + $5::interval, 'infinity') AS deadline,
       taken.completed, taken.aborted, taken.signals, task.post_result,
-- unless own_singly
       taken.lo = taken.last AS alone,
-- end
       -- in own_singly: true AS alone,
       taken.rank, taken.floor, task.limit_key, false AS limited, task.inserted_at,
       task.headers::text, taken.met
FROM (
    SELECT floored.*,
           -- signals says whether other tasks wait for one of a span's
           (SELECT true
            FROM stint.edges
            WHERE edges.after BETWEEN floored.lo AND floored.last
            LIMIT 1) IS NOT NULL AS signals
    FROM (
        -- Sorted in with the spans, the floors are looked at once. A join would look at each of
        -- them for each span: where there are as many actions, that took longer than all the rest.
        SELECT met.*, max(met.least) OVER (PARTITION BY met.action, met.priority) AS floor,
               (sum(met.tasks) OVER ())::bigint AS met
        FROM (
            SELECT taken.action, taken.priority, taken.lo, taken.last, taken.tries,
                   taken.completed, taken.aborted, taken.rank, NULL::bigint AS least,
                   NULL::bigint AS tasks
            FROM taken
            UNION ALL
            SELECT floor.action, floor.priority, NULL, NULL, NULL, NULL, NULL, NULL, floor.rank,
                   floor.tasks
            FROM floor
        ) AS met
    ) AS floored
    WHERE floored.lo IS NOT NULL
    OFFSET 0
) AS taken
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id, tasks.action, tasks.body, tasks.max_tries, tasks.post_result,
           tasks.limit_key, tasks.inserted_at, tasks.headers
    FROM stint.tasks
    WHERE tasks.key BETWEEN taken.lo AND taken.last
) AS task
UNION ALL
SELECT 0, '', limited.action, NULL, NULL, 0, 0, NULL, NULL, NULL, false, false, false, 0, NULL,
       NULL, true, NULL, NULL, NULL
FROM limited
