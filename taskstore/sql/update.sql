-- name: update
--
-- Adds, updates and deletes tasks, all or none. An update deletes a task and inserts its successor
-- under a new ID. Returns one row:
--
--   upto                              if too few IDs are reserved: see reserve_ids; else null
--   changes, deletes, depends, owned  why nothing was done, as IDs; null where there are none
--   ids, available, groups            of the new tasks, those of adds first; null if there are none
--
--   $1 client       bigint
--   $2 groups       text[]: of adds, as the next two
--   $3 data         bytea[]
--   $4 timespecs    bigint[]: milliseconds since the Epoch; 0 is now, less is so long from now
--   $5 ids          bigint[]: of updates, as the next two
--   $6 data         bytea[]
--   $7 timespecs    bigint[]
--   $8 deletes      bigint[]
--   $9 depends      bigint[]
--
-- No ID comes twice in $5, $8 and $9 together.
--
-- Locks the tasks of $5, $8 and $9 in the order of their IDs, whichever list an ID is in, and waits
-- for whoever holds one of them. Nobody who waits holds a task with a larger ID, so calls do not
-- deadlock. A task is never updated, only deleted: whoever waited for one finds it as it was, or
-- gone, and never holds its successor, whose ID is out of order.
WITH clock AS MATERIALIZED (
    SELECT floor(date_part('epoch', statement_timestamp()) * 1000)::bigint AS now
), locked AS MATERIALIZED (
    -- KEY SHARE keeps a task from being deleted and lets others depend on it at the same time.
    SELECT named.*, changed.group_name,
           coalesce(changed.id, kept.id) IS NULL AS missing,
           coalesce(
               changed.owner <> $1::bigint AND changed.available > (SELECT clock.now FROM clock),
               false) AS owned
    FROM (
        SELECT updates.id, 1 /* update */ AS list, updates.place, updates.data, updates.timespec
        FROM unnest($5::bigint[], $6::bytea[], $7::bigint[])
            WITH ORDINALITY AS updates (id, data, timespec, place)
        UNION ALL
        SELECT deletes.id, 2 /* delete */, NULL, NULL, NULL
        FROM unnest($8::bigint[]) AS deletes (id)
        UNION ALL
        SELECT depends.id, 3 /* depend */, NULL, NULL, NULL
        FROM unnest($9::bigint[]) AS depends (id)
        ORDER BY id
    ) AS named
    LEFT JOIN LATERAL (
        SELECT task.id, task.owner, task.available, task.group_name
        FROM stint.taskstore_tasks AS task
        WHERE task.id = named.id AND named.list <> 3 /* depend */
        FOR UPDATE
    ) AS changed ON true
    LEFT JOIN LATERAL (
        SELECT task.id
        FROM stint.taskstore_tasks AS task
        WHERE task.id = named.id AND named.list = 3 /* depend */
        FOR KEY SHARE
    ) AS kept ON true
), refused AS MATERIALIZED (
    SELECT array_agg(locked.id) FILTER (WHERE locked.missing AND locked.list = 1) AS changes,
           array_agg(locked.id) FILTER (WHERE locked.missing AND locked.list = 2) AS deletes,
           array_agg(locked.id) FILTER (WHERE locked.missing AND locked.list = 3) AS depends,
           array_agg(locked.id) FILTER (WHERE locked.owned) AS owned,
           coalesce(bool_or(locked.missing OR locked.owned), false) AS yes
    FROM locked
), fresh AS MATERIALIZED (
    SELECT nextval('stint.taskstore_ids') AS id, wanted.group_name, wanted.data,
           CASE
               WHEN wanted.timespec > 0 THEN wanted.timespec
               ELSE (SELECT clock.now FROM clock) - wanted.timespec
           END AS available
    FROM (
        SELECT 1 /* add */ AS list, adds.place, adds.group_name, adds.data, adds.timespec
        FROM unnest($2::text[], $3::bytea[], $4::bigint[])
            WITH ORDINALITY AS adds (group_name, data, timespec, place)
        UNION ALL
        SELECT 2 /* update */, locked.place, locked.group_name, locked.data, locked.timespec
        FROM locked
        WHERE locked.list = 1 /* update */
        ORDER BY list, place
    ) AS wanted
    WHERE NOT (SELECT refused.yes FROM refused)
), short AS MATERIALIZED (
    SELECT max(reserved.upto) AS upto
    FROM fresh
    CROSS JOIN stint.taskstore_reserved AS reserved
    WHERE fresh.id NOT BETWEEN 1 AND reserved.upto
), gone AS (
    DELETE FROM stint.taskstore_tasks AS task
    WHERE task.id = ANY (ARRAY(
        SELECT locked.id
        FROM locked
        WHERE locked.list <> 3 /* depend */
          AND NOT (SELECT refused.yes FROM refused) AND (SELECT short.upto FROM short) IS NULL
    ))
), added AS (
    INSERT INTO stint.taskstore_tasks (id, available, owner, group_name, data)
    SELECT fresh.id, fresh.available, $1::bigint, fresh.group_name, fresh.data
    FROM fresh
    WHERE (SELECT short.upto FROM short) IS NULL
)
SELECT short.upto, refused.changes, refused.deletes, refused.depends, refused.owned,
       made.ids, made.available, made.groups
FROM refused
CROSS JOIN short
CROSS JOIN (
    SELECT array_agg(fresh.id) AS ids, array_agg(fresh.available) AS available,
           array_agg(fresh.group_name) AS groups
    FROM (SELECT fresh.* FROM fresh ORDER BY fresh.id) AS fresh
) AS made
