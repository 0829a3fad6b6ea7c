-- name: claim
--
-- Gives a client a random available task of a group: deletes it and inserts its successor, which
-- the client owns, under a new ID. Returns one row:
--
--   upto                 if too few IDs are reserved: see reserve_ids; else null
--   depends              IDs of depends that no task has, so nothing was done; null: none
--   id, available, data  of the new task; null if no task of the group is available
--
--   $1 client    bigint
--   $2 group     text
--   $3 duration  bigint: milliseconds
--   $4 depends   bigint[], sorted
--   $5 start     integer, random
--
-- Every task has a random place among 64. The claim goes through them from $5 on and around, and
-- takes one of the 16 tasks at random that have been available longest at the first place that has
-- any. The index is in this order, so a place without an available task costs one look-up, however
-- many of its tasks are owned.
--
-- Locks the tasks of $4 in the order of their IDs and waits for whoever holds one of them. Then it
-- waits for nobody: it passes over tasks that others hold.
WITH clock AS MATERIALIZED (
    SELECT floor(date_part('epoch', statement_timestamp()) * 1000)::bigint AS now
), missing AS MATERIALIZED (
    SELECT array_agg(named.id) AS ids
    FROM unnest($4::bigint[]) AS named (id)
    LEFT JOIN LATERAL (
        SELECT task.id
        FROM stint.taskstore_tasks AS task
        WHERE task.id = named.id
        FOR KEY SHARE
    ) AS kept ON true
    WHERE kept.id IS NULL
), picked AS MATERIALIZED (
    SELECT task.*
    FROM generate_series($5::integer, $5::integer + 63) AS turn (number)
    CROSS JOIN LATERAL (
        SELECT oldest.id
        FROM (
            SELECT task.id
            FROM stint.taskstore_tasks AS task
            WHERE task.group_name = $2::text AND task.place = turn.number % 64
              AND task.available <= (SELECT clock.now FROM clock)
              AND task.id <> ALL ($4::bigint[])
            ORDER BY task.group_name, task.place, task.available
            LIMIT 16
        ) AS oldest
        ORDER BY random()
    ) AS candidate
    CROSS JOIN LATERAL (
        SELECT task.id, task.group_name, task.data
        FROM stint.taskstore_tasks AS task
        WHERE task.id = candidate.id
        FOR UPDATE SKIP LOCKED
    ) AS task
    WHERE (SELECT missing.ids FROM missing) IS NULL
    LIMIT 1
), fresh AS MATERIALIZED (
    SELECT nextval('stint.taskstore_ids') AS id, clock.now + $3::bigint AS available,
           picked.id AS old, picked.group_name, picked.data
    FROM picked
    CROSS JOIN clock
), short AS MATERIALIZED (
    SELECT max(reserved.upto) AS upto
    FROM fresh
    CROSS JOIN stint.taskstore_reserved AS reserved
    WHERE fresh.id NOT BETWEEN 1 AND reserved.upto
), gone AS (
    DELETE FROM stint.taskstore_tasks AS task
    WHERE task.id = ANY (ARRAY(
        SELECT fresh.old FROM fresh WHERE (SELECT short.upto FROM short) IS NULL
    ))
), added AS (
    INSERT INTO stint.taskstore_tasks (id, available, owner, group_name, data)
    SELECT fresh.id, fresh.available, $1::bigint, fresh.group_name, fresh.data
    FROM fresh
    WHERE (SELECT short.upto FROM short) IS NULL
)
SELECT short.upto, missing.ids AS depends, fresh.id, fresh.available, fresh.data
FROM missing
CROSS JOIN short
LEFT JOIN fresh ON true
