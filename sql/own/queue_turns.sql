-- name: queue_turns
-- variants: queue_shared
--
-- Moves tasks of fair actions without a group out of the queue of their action into those of their
-- keys: parks them, each span with one key, and sees to it that the keys have turns.
--
--   $1 actions  text[]
--
-- It takes the first 1,000 spans, and reads the keys of 10,000 tasks: what comes behind these is
-- for the next call. Tasks at the very beginning of the queue are those whose turn has come.
--
-- queue_shared is for actions of groups, too: a key that has turns in another action of the group
-- goes on from there, and otherwise comes behind the key that is next in the group. It does all in
-- one statement, so that turns are locked in one order.
WITH span AS MATERIALIZED (
    SELECT ready.*
    FROM (SELECT DISTINCT named.action FROM unnest($1::text[]) AS named (action)) AS named
    CROSS JOIN LATERAL (
        SELECT limits.action
        FROM stint.limits
        WHERE limits.action = named.action AND limits.fair
-- unless queue_shared
          AND limits.fair_group = ''
-- end
        OFFSET 0
    ) AS fair
    CROSS JOIN LATERAL (
        SELECT ready.lo, ready.hi, ready.limit_key, ready.position, ready.rank, ready.action,
               ready.priority, ready.tries, ready.completed, ready.aborted, ready.ready_at
        FROM stint.ready
        WHERE ready.action = fair.action AND ready.rank >= 0 AND ready.position > 0
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) AS ready
), known AS MATERIALIZED (
    SELECT span.*
    FROM (
        SELECT span.*, sum(CASE WHEN span.limit_key IS NULL THEN span.hi - span.lo + 1 END)
                   OVER (PARTITION BY span.action ORDER BY span.rank, span.hi) AS reads
        FROM span
    ) AS span
    WHERE span.reads <= 10000 OR span.reads IS NULL
), part AS MATERIALIZED (
    -- The tasks of a span that follow one another and have the same key.
    SELECT known.lo AS span, known.lo, known.hi, known.limit_key, known.position, known.action,
           known.priority, known.tries, known.completed, known.aborted, known.ready_at
    FROM known
    WHERE known.limit_key IS NOT NULL
    UNION ALL
    SELECT run.span, min(run.key), max(run.key), run.limit_key, min(run.position),
           min(run.action), min(run.priority), min(run.tries), min(run.completed),
           min(run.aborted), min(run.ready_at)
    FROM (
        SELECT known.lo AS span, known.position, known.action, known.priority, known.tries,
               known.completed, known.aborted, known.ready_at, task.key, task.limit_key,
               task.key - row_number() OVER (
                   PARTITION BY known.lo, task.limit_key ORDER BY task.key
               ) AS place
        FROM known
        CROSS JOIN LATERAL (
            SELECT tasks.key, coalesce(tasks.limit_key, '') AS limit_key
            FROM stint.tasks
            WHERE tasks.key BETWEEN known.lo AND known.hi
        ) AS task
        WHERE known.limit_key IS NULL
    ) AS run
    GROUP BY run.span, run.limit_key, run.place
), parked AS (
    -- By lo, not by place: the row may have a version that is younger than the snapshot.
    UPDATE stint.ready
    SET position = '-9223372036854775808'::bigint | ready.position,
        hi = (ARRAY(SELECT part.hi FROM part WHERE part.lo = part.span ORDER BY part.lo))[
            width_bucket(ready.lo, ARRAY(
                SELECT part.lo FROM part WHERE part.lo = part.span ORDER BY part.lo))],
        limit_key = (SELECT coalesce(tasks.limit_key, '')
                     FROM stint.tasks
                     WHERE tasks.key = ready.lo)
    WHERE ready.lo = ANY (ARRAY(SELECT part.lo FROM part WHERE part.lo = part.span))
), rest AS (
    INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted,
                             ready_at, limit_key)
    SELECT '-9223372036854775808'::bigint | part.position, part.lo, part.hi, part.action,
           part.priority, part.tries, part.completed, part.aborted, part.ready_at, part.limit_key
    FROM part
    WHERE part.lo > part.span
), level AS MATERIALIZED (
    -- What the key has that is next, or those that are held. Once for all keys: a look along the
    -- index for each would pass all the rows that are inserted here.
    SELECT parked.action, parked.tier, coalesce(min(free.pass), min(held.pass), 0) AS pass
    FROM (SELECT DISTINCT part.action, 32767 - part.priority AS tier FROM part) AS parked
    CROSS JOIN LATERAL (
        SELECT parked.action
-- in queue_shared:         UNION
-- in queue_shared:         SELECT limits.action
-- in queue_shared:         FROM stint.limits
-- in queue_shared:         WHERE limits.fair_group = (SELECT limits.fair_group
-- in queue_shared:                                    FROM stint.limits
-- in queue_shared:                                    WHERE limits.action = parked.action)
-- in queue_shared:           AND limits.fair_group <> ''
    ) AS member
    LEFT JOIN LATERAL (
        SELECT turns.pass
        FROM stint.turns
        WHERE turns.action = member.action AND NOT turns.held AND turns.tier = parked.tier
        ORDER BY turns.action, turns.held, turns.tier, turns.pass
        LIMIT 1
    ) AS free ON true
    LEFT JOIN LATERAL (
        SELECT turns.pass
        FROM stint.turns
        WHERE turns.action = member.action AND turns.held AND turns.tier = parked.tier
        ORDER BY turns.action, turns.held, turns.tier, turns.pass
        LIMIT 1
    ) AS held ON true
    GROUP BY parked.action, parked.tier
)
-- A key that had no tasks saves nothing up: it comes behind the key that is next, by a task of its
-- own. In front of it, a key whose tasks come one by one would keep all others from their turns.
--
-- One that has a turn gets a new version of it, which tells deal_turns that it has tasks. If it was
-- held, there may be capacity by now: tasks come here, too, when a pause ends or a limit is raised.
-- It has not saved up more than a turn meanwhile.
INSERT INTO stint.turns AS turns (action, limit_key, tier, pass)
SELECT named.action, named.limit_key, named.tier,
-- unless queue_shared
       level.pass + 1000000 / coalesce(
-- end
       -- in queue_shared: CASE WHEN of_key.pass IS NULL THEN level.pass
       -- in queue_shared:      ELSE greatest(of_key.pass, level.pass - 32000000)
       -- in queue_shared: END + CASE WHEN of_key.pass IS NULL THEN 1000000 ELSE 0 END / coalesce(
           (SELECT limited_keys.weight
            FROM stint.limited_keys
            WHERE limited_keys.action = named.action
              AND limited_keys.limit_key = named.limit_key),
           1)
FROM (SELECT DISTINCT part.action, part.limit_key, 32767 - part.priority AS tier FROM part) AS named
JOIN level ON level.action = named.action AND level.tier = named.tier
-- in queue_shared: CROSS JOIN LATERAL (
-- in queue_shared:     -- pass is null if the key has a turn in this action already, or nowhere.
-- in queue_shared:     SELECT CASE WHEN bool_or(own.action = named.action) IS NOT TRUE
-- in queue_shared:                 THEN max(own.pass)
-- in queue_shared:            END AS pass
-- in queue_shared:     FROM (
-- in queue_shared:         SELECT named.action
-- in queue_shared:         UNION
-- in queue_shared:         SELECT limits.action
-- in queue_shared:         FROM stint.limits
-- in queue_shared:         WHERE limits.fair_group = (SELECT limits.fair_group
-- in queue_shared:                                    FROM stint.limits
-- in queue_shared:                                    WHERE limits.action = named.action)
-- in queue_shared:           AND limits.fair_group <> ''
-- in queue_shared:     ) AS member
-- in queue_shared:     CROSS JOIN LATERAL (
-- in queue_shared:         -- Between and in order: else turns_order would be taken for it.
-- in queue_shared:         SELECT turns.action, turns.pass
-- in queue_shared:         FROM stint.turns
-- in queue_shared:         WHERE turns.action = member.action AND turns.tier = named.tier
-- in queue_shared:           AND turns.limit_key BETWEEN named.limit_key AND named.limit_key
-- in queue_shared:         ORDER BY turns.action, turns.limit_key, turns.tier
-- in queue_shared:         LIMIT 1
-- in queue_shared:     ) AS own
-- in queue_shared: ) AS of_key
ORDER BY named.action, named.limit_key, named.tier
ON CONFLICT (action, limit_key, tier) DO UPDATE
SET pass = CASE WHEN turns.held THEN greatest(turns.pass, excluded.pass - 32000000)
                ELSE turns.pass
           END,
    held = false
