-- name: check_store
--
-- Returns rows that contradict one another: rule, key, ID and what was found. A store that is whole
-- has none, at any instant; the statement sees one instant.
--
--   $1 rows  integer: how many to return at most
--
-- It reads whole tables, so it runs with the planner's own choice of plans.
WITH placed AS MATERIALIZED (
    -- Each task in each state table that holds it.
    SELECT blocked.key, 'blocked' AS state, blocked.tries, blocked.completed, blocked.aborted,
           NULL::smallint AS cause, NULL::text AS queued, NULL::text COLLATE "C" AS queued_key,
           NULL::bigint AS claim, NULL::text COLLATE "C" AS limited_action
    FROM stint.blocked
    UNION ALL
    SELECT scheduled.key, 'scheduled', scheduled.tries, scheduled.completed, scheduled.aborted,
           NULL, NULL, NULL, NULL, NULL
    FROM stint.scheduled
    UNION ALL
    SELECT span.key, 'ready', ready.tries, ready.completed, ready.aborted, NULL,
           format('%s, priority %s, until %s', ready.action, ready.priority, ready.deadline),
           ready.limit_key, NULL, NULL
    FROM stint.ready
    CROSS JOIN LATERAL generate_series(ready.lo, ready.hi) AS span (key)
    UNION ALL
    SELECT span.key, 'in progress', leased.tries, leased.completed, leased.aborted, NULL, NULL,
           NULL, leased.claim, leased.limited_action
    FROM stint.leased
    CROSS JOIN LATERAL generate_series(leased.lo, leased.hi) AS span (key)
    UNION ALL
    SELECT span.key, 'final', finished.tries, NULL, NULL, finished.cause, NULL, NULL,
           NULL, NULL
    FROM stint.finished
    CROSS JOIN LATERAL generate_series(finished.lo, finished.hi) AS span (key)
), known AS MATERIALIZED (
    -- The same with their definitions.
    SELECT placed.*, tasks.id, tasks.action, tasks.priority, tasks.max_tries, tasks.on_abort,
           tasks.deadline, tasks.limit_key
    FROM placed
    JOIN stint.tasks ON tasks.key = placed.key
), linked AS MATERIALIZED (
    -- Those that have edges.
    SELECT known.key, known.state, known.cause, known.action, known.on_abort, known.id
    FROM known
    JOIN (
        SELECT edges.after AS key FROM stint.edges UNION SELECT edges.run FROM stint.edges
    ) AS ends ON ends.key = known.key
), before AS (
    -- Each edge with the state of its predecessor, and below that of its dependent. Edges are
    -- sorted in with the tasks, since that takes the same time whatever the planner guesses. It
    -- takes each span for 1,000 tasks. Multiplied with the dependents of one task that makes a
    -- number of rows for which a hash join cuts its table into thousands of files. The row of the
    -- task is the only one that has values, so max finds them; first_value would go back to that
    -- row for each edge, on the disk if there are many.
    SELECT sorted.after, sorted.run, sorted.accepts, sorted.before_state, sorted.before_cause,
           sorted.before_action
    FROM (
        SELECT mixed.after, mixed.run, mixed.accepts, max(mixed.state) OVER same AS before_state,
               max(mixed.cause) OVER same AS before_cause,
               max(mixed.action) OVER same AS before_action
        FROM (
            SELECT linked.key AS after, NULL::bigint AS run, NULL::smallint AS accepts,
                   linked.state, linked.cause, linked.action
            FROM linked
            UNION ALL
            SELECT edges.after, edges.run, edges.accepts, NULL, NULL, NULL
            FROM stint.edges
        ) AS mixed
        WINDOW same AS (PARTITION BY mixed.after ORDER BY mixed.run NULLS FIRST)
    ) AS sorted
    WHERE sorted.run IS NOT NULL
), edge AS MATERIALIZED (
    -- An edge from a task that is gone is settled: its before_state is null, so that no rule below
    -- finds it.
    SELECT sorted.after, sorted.run, coalesce(sorted.accepts, 0) AS accepts, sorted.before_state,
           sorted.before_cause, sorted.before_action, sorted.after_state, sorted.after_cause,
           sorted.on_abort, sorted.id
    FROM (
        SELECT mixed.after, mixed.run, mixed.accepts, mixed.before_state, mixed.before_cause,
               mixed.before_action,
               max(mixed.state) OVER same AS after_state,
               max(mixed.cause) OVER same AS after_cause,
               max(mixed.on_abort) OVER same AS on_abort,
               max(mixed.id) OVER same AS id
        FROM (
            SELECT NULL::bigint AS after, linked.key AS run, NULL::smallint AS accepts,
                   NULL AS before_state,
                   NULL::smallint AS before_cause, NULL AS before_action, linked.state,
                   linked.cause, linked.on_abort, linked.id
            FROM linked
            UNION ALL
            SELECT before.after, before.run, before.accepts, before.before_state,
                   before.before_cause,
                   before.before_action, NULL, NULL, NULL, NULL
            FROM before
        ) AS mixed
        WINDOW same AS (PARTITION BY mixed.run ORDER BY mixed.after NULLS FIRST)
    ) AS sorted
    WHERE sorted.after IS NOT NULL
), leaseless AS (
    -- Owned spans that lie in no span of their lease. The spans of a lease do not overlap, so one
    -- that contains another is the last that begins at it or ahead of it.
    SELECT sorted.lo, sorted.claim
    FROM (
        SELECT mixed.lo, mixed.hi, mixed.claim, mixed.handed,
               max(mixed.hi) FILTER (WHERE mixed.handed) OVER (
                   PARTITION BY mixed.claim, mixed.part ORDER BY mixed.lo, NOT mixed.handed
                   ROWS UNBOUNDED PRECEDING
               ) AS until
        FROM (
            SELECT leased.claim, leased.part, leased.lo, leased.hi, false AS handed
            FROM stint.leased
            UNION ALL
            SELECT lease.claim, lease.part, lease.spans[pair.n][1], lease.spans[pair.n][2], true
            FROM (
                -- Each subscript of a packed array would unpack all of it: || unpacks it once,
                -- here.
                SELECT leases.claim, leases.part, leases.spans || '{}'::bigint[] AS spans
                FROM stint.leases
                OFFSET 0
            ) AS lease
            CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS pair (n)
        ) AS mixed
    ) AS sorted
    WHERE NOT sorted.handed AND sorted.until >= sorted.hi IS NOT TRUE
), held AS MATERIALIZED (
    -- The slots that are taken, with their tasks.
    SELECT slots.action AS slot_action, slots.limit_key AS slot_key, slots.slot, known.key,
           known.id, known.action, known.limit_key
    FROM stint.slots
    JOIN known ON known.key = slots.key AND known.claim = slots.claim
), told AS (
    -- How many signals a task must miss, and how many completed and aborted tasks its predecessors
    -- have told it of at least: a completed spontaneous task may stand for any number, and a task
    -- that the first of several has started (8) is told of no others.
    SELECT edge.run AS key, count(*) FILTER (WHERE edge.before_state <> 'final') AS missing,
           count(*) FILTER (WHERE edge.before_cause = 0 /* completed */ AND edge.accepts & 8 = 0
                                  AND edge.before_action <> 'stint.Spontaneous') AS completed,
           count(*) FILTER (WHERE edge.before_cause NOT IN (0 /* completed */, 8 /* skipped */)
                                  AND edge.accepts & 8 = 0) AS aborted
    FROM edge
    GROUP BY edge.run
)
SELECT broken.rule, broken.key, broken.id, broken.found
FROM (
    SELECT 'a task is in exactly one state' AS rule, tasks.key, tasks.id,
           coalesce(string_agg(placed.state, ', '), 'none') AS found
    FROM stint.tasks
    LEFT JOIN placed ON placed.key = tasks.key
    GROUP BY tasks.key
    HAVING count(placed.key) <> 1
    UNION ALL
    -- A task that ended and whose definition is gone was replaced.
    SELECT 'what has a state has a definition', placed.key, NULL, placed.state
    FROM placed
    LEFT JOIN stint.tasks ON tasks.key = placed.key
    WHERE tasks.key IS NULL AND placed.cause IS DISTINCT FROM 5 /* replaced */
    UNION ALL
    SELECT 'a blocked task misses the signals of its unfinished predecessors', blocked.key,
           known.id, format('%s missing, %s predecessors', blocked.missing, told.missing)
    FROM stint.blocked
    LEFT JOIN told ON told.key = blocked.key
    LEFT JOIN known ON known.key = blocked.key
    WHERE blocked.missing IS DISTINCT FROM told.missing
    UNION ALL
    SELECT 'a task begins when its predecessors have ended (R7)', edge.run, edge.id,
           edge.after_state
    FROM edge
    WHERE edge.before_state <> 'final' AND edge.accepts & 8 = 0 -- not one of several
      AND (edge.after_state IN ('ready', 'scheduled', 'in progress')
           OR edge.after_cause = 0 /* completed */)
    UNION ALL
    SELECT 'an aborted predecessor aborts what does not run anyway (R12)', edge.run, edge.id,
           edge.after_state
    FROM edge
    WHERE edge.before_cause NOT IN (0 /* completed */, 8 /* skipped */)
      AND edge.on_abort = 0 AND edge.accepts & 10 = 0 AND edge.after_state <> 'final'
    UNION ALL
    SELECT 'a skipped predecessor skips what does not run anyway (R23)', edge.run, edge.id,
           edge.after_state
    FROM edge
    WHERE edge.before_cause = 8 /* skipped */ AND edge.on_abort = 0 AND edge.accepts = 0
      AND edge.after_state <> 'final'
    UNION ALL
    SELECT 'the first of several starts a task that waits for nothing else (R23)', edge.run,
           min(edge.id), count(*) || ' edges'
    FROM edge
    GROUP BY edge.run
    HAVING count(*) FILTER (WHERE edge.accepts & 8 <> 0) NOT IN (0, count(*))
    UNION ALL
    SELECT 'a task is told of its predecessors', known.key, known.id,
           format('told of %s completed and %s aborted, but %s and %s did', known.completed,
                  known.aborted, told.completed, told.aborted)
    FROM known
    JOIN told ON told.key = known.key
    WHERE known.state <> 'final'
      AND (coalesce(known.completed, 0) < told.completed
           OR coalesce(known.aborted, 0) < told.aborted)
    UNION ALL
    SELECT 'an edge leads to a task', edge.run, NULL, format('from %s', edge.after)
    FROM edge
    WHERE edge.after_state IS NULL
    UNION ALL
    SELECT 'an owned task has a lease', leaseless.lo, known.id,
           format('claim %s', leaseless.claim)
    FROM leaseless
    LEFT JOIN known ON known.key = leaseless.lo
    UNION ALL
    SELECT 'tries are limited', known.key, known.id, format('%s tries', known.tries)
    FROM known
    WHERE known.max_tries > 0
      AND (known.tries > known.max_tries
           OR known.tries = known.max_tries AND known.state IN ('ready', 'scheduled', 'blocked'))
    UNION ALL
    SELECT 'a ready task is queued as it is defined', known.key, known.id, known.queued
    FROM known
    WHERE known.queued
          <> format('%s, priority %s, until %s', known.action, known.priority, known.deadline)
    UNION ALL
    SELECT 'a span has the key of its tasks', known.key, known.id,
           format('queued with key "%s", defined with "%s"', known.queued_key, known.limit_key)
    FROM known
    WHERE known.queued_key <> coalesce(known.limit_key, '')
    UNION ALL
    SELECT 'a parked task is parked by its key', ready.lo, known.id,
           format('position %s', ready.position)
    FROM stint.ready
    LEFT JOIN known ON known.key = ready.lo
    WHERE ready.position < 0 AND ready.limit_key IS NULL
    UNION ALL
    SELECT 'an owned task counts towards the limits of its action', known.key, known.id,
           format('%s, counted as %s', known.action, known.limited_action)
    FROM known
    WHERE known.limited_action <> known.action
    UNION ALL
    SELECT 'a task has one slot', held.key, held.id,
           'slots ' || string_agg(held.slot::text, ', ' ORDER BY held.slot)
    FROM held
    GROUP BY held.key, held.id
    HAVING count(*) > 1
    UNION ALL
    SELECT 'a slot is one of the key of its task', held.key, held.id,
           format('slot %s of key "%s" of %s', held.slot, held.slot_key, held.slot_action)
    FROM held
    WHERE held.slot_action <> held.action OR held.slot_key <> coalesce(held.limit_key, '')
    UNION ALL
    SELECT 'a spontaneous task is owned by nobody (R14)', known.key, known.id, known.state
    FROM known
    WHERE known.action = 'stint.Spontaneous' AND known.state IN ('ready', 'in progress')
    UNION ALL
    SELECT 'a completed spontaneous task passes on what it was told', known.key, known.id, NULL
    FROM known
    LEFT JOIN stint.joined ON joined.key = known.key
    WHERE known.action = 'stint.Spontaneous' AND known.cause = 0 /* completed */
      AND joined.key IS NULL
    UNION ALL
    SELECT 'an absolute deadline is watched (R6)', known.key, known.id, known.deadline::text
    FROM known
    LEFT JOIN stint.deadlines
           ON deadlines.key = known.key AND deadlines.deadline = known.deadline
    WHERE known.deadline IS NOT NULL AND known.state <> 'final' AND deadlines.key IS NULL
    UNION ALL
    SELECT 'nothing is left to settle', settling.key, NULL, format('batch %s', settling.batch)
    FROM stint.settling
    UNION ALL
    SELECT 'an expired lease is taken back (R13)', leased.lo, known.id,
           format('expired at %s', leases.deadline)
    FROM stint.leases
    JOIN stint.leased ON leased.claim = leases.claim AND leased.part = leases.part
    LEFT JOIN known ON known.key = leased.lo
    WHERE leases.deadline < statement_timestamp() - interval '1 minute'
) AS broken
LIMIT $1::integer
