-- name: deal_turns
--
-- Brings tasks of fair actions without a group back to the very beginning of the queue of their
-- action, key by key in turn, until $2 are there. A turn is of 32 tasks for each unit of the key's
-- weight, or of more where few keys of a priority share $2. Those of lower priority have a turn
-- only when the others have no more tasks, or no capacity. Returns the keys of which nothing was
-- brought back, since they have no capacity below a limit of their own; and, without a key, the
-- actions of which tasks are there from before.
--
--   $1 actions    text[]
--   $2 max_tasks  integer; of an action that counts costs 1, since no more is fetched
--   $3 anew       boolean: tasks that are there from before do not count, since others lock them
--
-- The pass of a key grows by what a task of its weight costs, so that keys that always have tasks
-- get shares in proportion to their weights.
WITH RECURSIVE fair AS MATERIALIZED (
    SELECT limits.action, limits.per_key, limits.key_burst, limits.each, limits.most,
           ready.tasks AS there
    FROM (SELECT DISTINCT named.action FROM unnest($1::text[]) AS named (action)) AS named
    CROSS JOIN LATERAL (
        SELECT limits.action, limits.per_key, limits.key_burst,
               date_part('epoch', limits.key_per) / limits.key_tasks AS each,
               CASE WHEN limits.by_cost THEN 1 ELSE $2::integer END AS most
        FROM stint.limits
        WHERE limits.action = named.action AND limits.fair AND limits.fair_group = ''
          AND limits.paused_at IS NULL
        OFFSET 0
    ) AS limits
    CROSS JOIN LATERAL (
        -- include brought_back
    ) AS ready
), turn AS (
    -- From key to key, until enough tasks are found. tid is null if somebody else is busy with the
    -- turn, or it has a new version since the statement began, which may have come with tasks that
    -- the statement does not see. After 250 keys without capacity it ends, so that no statement is
    -- long: the caller runs it again, and these are held by then. quantum is how many tasks a turn
    -- has for each unit of a weight; after a key that may have more (more), the next tier, which
    -- is of lower priority, has no turn.
    SELECT fair.action, fair.per_key, fair.key_burst, fair.each, 0::bigint AS quantum,
           false AS more, fair.most::bigint AS missing, 0 AS full_keys, NULL::integer AS tier,
           NULL::bigint AS pass,
           NULL::text COLLATE "C" AS limit_key,
           0::bigint AS tasks, 0::bigint AS there, 1 AS weight, NULL::pg_catalog.tid AS tid,
           NULL::bigint AS first, NULL::bigint AS last
    FROM fair
    UNION ALL
    SELECT turn.action, turn.per_key, turn.key_burst, turn.each, share.quantum,
           turn.tier = next.tier AND turn.more
               OR dealt.tasks > 0 AND dealt.tasks = share.quantum * weighed.weight,
           still.missing - dealt.tasks,
           turn.full_keys + CASE WHEN dealt.tasks = 0 AND queue.tasks > 0 THEN 1 ELSE 0 END,
           next.tier, next.pass, next.limit_key, dealt.tasks, queue.tasks, weighed.weight,
           locked.tid, next.first, next.last
    FROM turn
    CROSS JOIN LATERAL (
        SELECT turns.tier, turns.pass, turns.limit_key, turns.ctid AS tid, turns.xmin AS version,
               '-9223372036854775808'::bigint + (turns.tier::bigint << 47) AS first,
               '-9223372036854775808'::bigint + ((turns.tier + 1)::bigint << 47) - 1 AS last
        FROM stint.turns
        WHERE turns.action = turn.action AND NOT turns.held
          AND (turns.tier, turns.pass, turns.limit_key) OPERATOR(pg_catalog.>)
              (coalesce(turn.tier, -1), coalesce(turn.pass, 0), coalesce(turn.limit_key, ''))
        ORDER BY turns.action, turns.held, turns.tier, turns.pass, turns.limit_key
        LIMIT 1
    ) AS next
    CROSS JOIN LATERAL (
        -- Less what was brought back before, and not fetched: but that of lower priorities does
        -- not keep a turn from coming.
        SELECT turn.missing - CASE
                   WHEN turn.tier = next.tier OR $3::boolean THEN 0
                   ELSE (
                       SELECT coalesce(sum(head.hi - head.lo + 1), 0)::bigint
                       FROM (
                           SELECT ready.lo, ready.hi
                           FROM stint.ready
                           WHERE ready.action = turn.action
                             AND ready.rank BETWEEN coalesce(turn.tier + 1, 0)::bigint << 47
                                                AND next.tier::bigint << 47
                             AND ready.position = 0
                             AND (ready.deadline IS NULL
                                  OR ready.deadline > statement_timestamp())
                           ORDER BY ready.action, ready.rank, ready.hi
                           LIMIT turn.missing
                       ) AS head
                   )
               END AS missing
        OFFSET 0
    ) AS still
    CROSS JOIN LATERAL (
        SELECT CASE WHEN turn.tier = next.tier THEN turn.quantum ELSE (
                   -- By the weight of the next keys of the tier, up to as many as share what is
                   -- missing by turns of 32.
                   SELECT greatest(32, (still.missing - 1) / greatest(sum(coalesce(
                              (SELECT limited_keys.weight
                               FROM stint.limited_keys
                               WHERE limited_keys.action = turn.action
                                 AND limited_keys.limit_key = key.limit_key),
                              1)), 1)::bigint + 1)
                   FROM (
                       SELECT turns.limit_key
                       FROM stint.turns
                       WHERE turns.action = turn.action AND NOT turns.held
                         AND turns.tier = next.tier
                       ORDER BY turns.action, turns.held, turns.tier, turns.pass, turns.limit_key
                       LIMIT $2::integer / 32 + 1
                   ) AS key
               ) END AS quantum
        OFFSET 0
    ) AS share
    LEFT JOIN LATERAL (
        SELECT turns.ctid AS tid
        FROM stint.turns
        WHERE turns.ctid = next.tid AND turns.xmin = next.version
        FOR UPDATE SKIP LOCKED
    ) AS locked ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(
                   (SELECT CASE WHEN keys.paused_at IS NULL THEN keys.weight ELSE 0 END
                    FROM stint.limited_keys AS keys
                    WHERE keys.action = turn.action AND keys.limit_key = next.limit_key
                    OFFSET 0),
                   1) AS weight
        OFFSET 0
    ) AS weighed
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(ready.hi - ready.lo + 1), 0)::bigint AS tasks
        FROM (
            SELECT ready.lo, ready.hi
            FROM stint.ready
            WHERE ready.action = turn.action AND ready.limit_key = next.limit_key
              AND ready.position < 0 AND ready.rank BETWEEN next.first AND next.last
              AND locked.tid IS NOT NULL
            ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
            LIMIT share.quantum * greatest(weighed.weight, 1)
        ) AS ready
    ) AS queue
    CROSS JOIN LATERAL (
        -- Room below the limits of the key, as in own_limited. Tasks without a key have no such
        -- limits.
        -- include room_of_key: limits=turn
    ) AS capacity
    CROSS JOIN LATERAL (
        SELECT greatest(0, least(queue.tasks, still.missing, share.quantum * weighed.weight,
                                 CASE WHEN next.limit_key <> '' THEN capacity.tasks END)) AS tasks
    ) AS dealt
    WHERE turn.missing > 0 AND still.missing > 0 AND turn.full_keys < 250
      AND (turn.tier = next.tier OR NOT turn.more)
),
-- include bring_back
, outcome AS MATERIALIZED (
    -- Whether all tasks came that are dealt: others may have locked some.
    SELECT (SELECT coalesce(sum(turn.tasks), 0) FROM turn)
           = (SELECT coalesce(sum(part.last - part.lo + 1), 0) FROM part) AS all_came
), over AS (
    -- A turn goes when its key has no more tasks, unless some could not be brought back.
    DELETE FROM stint.turns
    USING turn
    WHERE turns.ctid = turn.tid AND turn.there = turn.tasks
      AND turn.there < turn.quantum * turn.weight AND (SELECT outcome.all_came FROM outcome)
), passed AS (
    UPDATE stint.turns
    SET pass = turns.pass + turn.tasks * 1000000 / greatest(turn.weight, 1),
        held = turn.tasks = 0 AND turn.there > 0
    FROM turn
    WHERE turns.ctid = turn.tid
      AND NOT (turn.there = turn.tasks AND turn.there < turn.quantum * turn.weight
               AND (SELECT outcome.all_came FROM outcome))
)
SELECT turn.action, turn.limit_key
FROM turn
WHERE turn.tasks = 0 AND turn.there > 0
UNION ALL
SELECT fair.action, NULL FROM fair WHERE fair.there > 0
