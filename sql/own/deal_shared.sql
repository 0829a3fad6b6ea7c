-- name: deal_shared
--
-- Is deal_turns for the fair actions of groups, whose keys have one turn in all actions of a group:
-- what a key gets of one action counts in all others, those included that nobody asks for here.
--
--   $1 actions    text[]
--   $2 max_tasks  integer
--   $3 anew       boolean: tasks that are there from before do not count, since others lock them
--
-- Of a key whose turn it is, the action comes first whose task is the oldest, and then the others,
-- until the turn is over. An action gets no more than its own limits leave room for, so that one at
-- its limit does not keep the others of its group waiting. A task costs what the weight of its key
-- says in its action.
--
-- Each key has a row of turns for each action of which tasks are parked, with the same pass. Who
-- changes one of them at this moment, as a return may, leaves it behind the others; it catches up
-- with the next turn of the key, which begins at the highest pass.
WITH RECURSIVE fair AS MATERIALIZED (
    -- room is how many tasks of the action may be fetched, n numbers the actions of a group.
    SELECT limits.*, ready.tasks AS there,
           row_number() OVER (PARTITION BY limits.fair_group ORDER BY limits.action) AS n
    FROM (SELECT DISTINCT named.action FROM unnest($1::text[]) AS named (action)) AS named
    CROSS JOIN LATERAL (
        SELECT limits.fair_group, limits.action, limits.per_key, limits.key_burst,
               date_part('epoch', limits.key_per) / limits.key_tasks AS each,
               least($2::integer,
                     limits.concurrency - CASE WHEN limits.concurrency IS NOT NULL THEN (
                         SELECT coalesce(sum(leased.hi - leased.lo + 1), 0)
                         FROM stint.leased
                         WHERE leased.limited_action = limits.action
                     ) END,
                     floor(least(
                         limits.rate_burst,
                         limits.tokens + limits.rate_tasks / date_part('epoch', limits.rate_per)
                             * date_part('epoch', greatest(
                                   statement_timestamp() - limits.refilled_at, interval '0'
                               ))
                     )))::bigint AS room
        FROM stint.limits
        -- Not compared with '': that would let the planner walk limits_groups.
        WHERE limits.action = named.action AND limits.fair AND length(limits.fair_group) > 0
          AND limits.paused_at IS NULL
        OFFSET 0
    ) AS limits
    CROSS JOIN LATERAL (
        -- include brought_back
    ) AS ready
    WHERE limits.room > 0
), shared AS MATERIALIZED (
    SELECT fair.fair_group, array_agg(fair.room ORDER BY fair.n) AS rooms
    FROM fair
    GROUP BY fair.fair_group
), turn AS (
    -- From key to key, and of each from action to action, until enough tasks are found. budget is
    -- what the turn of the key may still cost, in millionths of a task, and quota how many tasks of
    -- the action that is. tid is null as in deal_turns, and where there is no room or no budget. It
    -- ends after as many keys without capacity as in deal_turns.
    SELECT shared.fair_group, 0::bigint AS quantum, false AS more, shared.rooms,
           $2::bigint AS missing, 0 AS full_keys,
           0::bigint AS budget, 0::bigint AS quota, NULL::integer AS tier, NULL::bigint AS pass,
           NULL::text COLLATE "C" AS limit_key, NULL::bigint AS oldest, 0::bigint AS n,
           NULL::text COLLATE "C" AS action, 0::bigint AS tasks, 0::bigint AS there, 1 AS weight,
           NULL::pg_catalog.tid AS tid, NULL::bigint AS first, NULL::bigint AS last
    FROM shared
    UNION ALL
    SELECT turn.fair_group, share.quantum,
           turn.tier = next.tier AND turn.more
               OR dealt.tasks > 0 AND dealt.tasks = allowed.quota,
           still.rooms[:next.n - 1] || (still.rooms[next.n] - dealt.tasks)
               || still.rooms[next.n + 1:],
           still.missing - dealt.tasks,
           turn.full_keys + CASE WHEN dealt.tasks = 0 AND queue.tasks > 0 THEN 1 ELSE 0 END,
           allowed.budget - dealt.tasks * 1000000 / greatest(allowed.weight, 1), allowed.quota,
           next.tier, next.pass, next.limit_key, next.oldest, next.n, next.action, dealt.tasks,
           queue.tasks, allowed.weight, locked.tid, next.first, next.last
    FROM turn
    CROSS JOIN LATERAL (
        SELECT fair.action, fair.n, fair.per_key, fair.key_burst, fair.each, one.*, head.oldest
        FROM fair
        CROSS JOIN LATERAL (
            -- At most one is of the key that had its turn last.
            SELECT turns.tier, turns.pass, turns.limit_key, turns.ctid AS tid,
                   turns.xmin AS version,
                   '-9223372036854775808'::bigint + (turns.tier::bigint << 47) AS first,
                   '-9223372036854775808'::bigint + ((turns.tier + 1)::bigint << 47) - 1 AS last
            FROM stint.turns
            WHERE turns.action = fair.action AND NOT turns.held
              AND (turns.tier, turns.pass, turns.limit_key) OPERATOR(pg_catalog.>=)
                  (coalesce(turn.tier, -1), coalesce(turn.pass, 0), coalesce(turn.limit_key, ''))
            ORDER BY turns.action, turns.held, turns.tier, turns.pass, turns.limit_key
            LIMIT 2
        ) AS one
        CROSS JOIN LATERAL (
            SELECT coalesce(min(ready.rank), 9223372036854775807) AS oldest
            FROM (
                SELECT ready.rank
                FROM stint.ready
                WHERE ready.action = fair.action AND ready.limit_key = one.limit_key
                  AND ready.position < 0 AND ready.rank BETWEEN one.first AND one.last
                ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
                LIMIT 1
            ) AS ready
        ) AS head
        WHERE fair.fair_group = turn.fair_group AND turn.rooms[fair.n] > 0
          AND (turn.tier IS NULL
               OR (one.tier, one.pass, one.limit_key, head.oldest, fair.n)
                  OPERATOR(pg_catalog.>)
                  (turn.tier, turn.pass, turn.limit_key, turn.oldest, turn.n))
        ORDER BY one.tier, one.pass, one.limit_key, head.oldest, fair.n
        LIMIT 1
    ) AS next
    CROSS JOIN LATERAL (
        -- Less what was brought back before, and not fetched, as in deal_turns.
        SELECT (turn.missing - sum(before.tasks))::bigint AS missing,
               array_agg(turn.rooms[before.n] - before.tasks ORDER BY before.n) AS rooms
        FROM (
            SELECT fair.n, CASE
                       WHEN turn.tier = next.tier OR $3::boolean THEN 0
                       ELSE least(turn.rooms[fair.n], (
                           SELECT coalesce(sum(head.hi - head.lo + 1), 0)::bigint
                           FROM (
                               SELECT ready.lo, ready.hi
                               FROM stint.ready
                               WHERE ready.action = fair.action
                                 AND ready.rank BETWEEN coalesce(turn.tier + 1, 0)::bigint << 47
                                                    AND next.tier::bigint << 47
                                 AND ready.position = 0
                                 AND (ready.deadline IS NULL
                                      OR ready.deadline > statement_timestamp())
                               ORDER BY ready.action, ready.rank, ready.hi
                               LIMIT turn.missing
                           ) AS head
                       ))
                   END AS tasks
            FROM fair
            WHERE fair.fair_group = turn.fair_group
        ) AS before
    ) AS still
    CROSS JOIN LATERAL (
        SELECT CASE WHEN turn.tier = next.tier THEN turn.quantum ELSE (
                   SELECT greatest(32, (still.missing - 1)
                                       / greatest(sum(key.weight), 1)::bigint + 1)
                   FROM (
                       SELECT one.limit_key, max(coalesce(
                                  (SELECT limited_keys.weight
                                   FROM stint.limited_keys
                                   WHERE limited_keys.action = fair.action
                                     AND limited_keys.limit_key = one.limit_key),
                                  1)) AS weight
                       FROM fair
                       CROSS JOIN LATERAL (
                           SELECT turns.limit_key
                           FROM stint.turns
                           WHERE turns.action = fair.action AND NOT turns.held
                             AND turns.tier = next.tier
                           ORDER BY turns.action, turns.held, turns.tier, turns.pass,
                                    turns.limit_key
                           LIMIT $2::integer / 32 + 1
                       ) AS one
                       WHERE fair.fair_group = turn.fair_group
                       GROUP BY one.limit_key
                   ) AS key
               ) END AS quantum
        OFFSET 0
    ) AS share
    CROSS JOIN LATERAL (
        SELECT rest.budget, keys.weight, (rest.budget * keys.weight + 999999) / 1000000 AS quota
        FROM (
            SELECT CASE WHEN next.tier = turn.tier AND next.pass = turn.pass
                             AND next.limit_key = turn.limit_key
                        THEN turn.budget ELSE share.quantum * 1000000 END AS budget
        ) AS rest
        CROSS JOIN LATERAL (
            SELECT coalesce(
                       (SELECT CASE WHEN keys.paused_at IS NULL THEN keys.weight ELSE 0 END
                        FROM stint.limited_keys AS keys
                        WHERE keys.action = next.action AND keys.limit_key = next.limit_key
                        OFFSET 0),
                       1) AS weight
        ) AS keys
        OFFSET 0
    ) AS allowed
    LEFT JOIN LATERAL (
        SELECT turns.ctid AS tid
        FROM stint.turns
        WHERE turns.ctid = next.tid AND turns.xmin = next.version
          AND allowed.budget > 0 AND still.rooms[next.n] > 0
        FOR UPDATE SKIP LOCKED
    ) AS locked ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(ready.hi - ready.lo + 1), 0)::bigint AS tasks
        FROM (
            SELECT ready.lo, ready.hi
            FROM stint.ready
            WHERE ready.action = next.action AND ready.limit_key = next.limit_key
              AND ready.position < 0 AND ready.rank BETWEEN next.first AND next.last
              AND locked.tid IS NOT NULL
            ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
            LIMIT greatest(allowed.quota, 1)
        ) AS ready
    ) AS queue
    CROSS JOIN LATERAL (
        -- Room below the limits of the key, as in deal_turns.
        -- include room_of_key: limits=next
    ) AS capacity
    CROSS JOIN LATERAL (
        SELECT greatest(0, least(queue.tasks, still.missing, still.rooms[next.n], allowed.quota,
                                 CASE WHEN next.limit_key <> '' THEN capacity.tasks END)) AS tasks
    ) AS dealt
    WHERE turn.missing > 0 AND still.missing > 0 AND turn.full_keys < 250
      AND (turn.tier = next.tier OR NOT turn.more)
),
-- include bring_back
, ended AS MATERIALIZED (
    -- A turn goes when its key has no more tasks of the action, unless some could not be brought
    -- back, since others have locked them.
    SELECT turn.tid
    FROM turn
    WHERE turn.there = turn.tasks AND turn.there < turn.quota AND turn.tid IS NOT NULL
      AND (SELECT coalesce(sum(turn.tasks), 0) FROM turn)
          = (SELECT coalesce(sum(part.last - part.lo + 1), 0) FROM part)
), over AS (
    DELETE FROM stint.turns
    USING ended
    WHERE turns.ctid = ended.tid
), account AS MATERIALIZED (
    -- The turns of each key that got tasks, in all actions of the group, with their common pass.
    SELECT turns.tid, max(turns.pass) OVER (
               PARTITION BY key.fair_group, key.tier, key.limit_key) + key.cost AS pass
    FROM (
        SELECT turn.fair_group, turn.tier, turn.limit_key,
               sum(turn.tasks * 1000000 / greatest(turn.weight, 1))::bigint AS cost
        FROM turn
        WHERE turn.tasks > 0
        GROUP BY turn.fair_group, turn.tier, turn.limit_key
    ) AS key
    CROSS JOIN LATERAL (
        SELECT limits.action
        FROM stint.limits
        WHERE limits.fair_group = key.fair_group AND limits.fair_group <> ''
        OFFSET 0
    ) AS member
    CROSS JOIN LATERAL (
        -- Between and in order, for which turns_pkey is good and turns_order is not.
        SELECT turns.ctid AS tid, turns.pass
        FROM stint.turns
        WHERE turns.action = member.action AND turns.tier = key.tier
          AND turns.limit_key BETWEEN key.limit_key AND key.limit_key
        ORDER BY turns.action, turns.limit_key, turns.tier
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS turns
), passed AS (
    UPDATE stint.turns
    SET pass = coalesce(changed.pass, turns.pass), held = turns.held OR changed.held
    FROM (
        SELECT one.tid, max(one.pass) AS pass, bool_or(one.held) AS held
        FROM (
            SELECT account.tid, account.pass, false AS held FROM account
            UNION ALL
            SELECT turn.tid, NULL, true FROM turn WHERE turn.tasks = 0 AND turn.there > 0
        ) AS one
        WHERE one.tid <> ALL (ARRAY(SELECT ended.tid FROM ended))
        GROUP BY one.tid
    ) AS changed
    WHERE turns.ctid = changed.tid
)
SELECT turn.action, turn.limit_key
FROM turn
WHERE turn.tasks = 0 AND turn.there > 0
UNION ALL
SELECT fair.action, NULL FROM fair WHERE fair.there > 0
