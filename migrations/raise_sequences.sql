-- name: raise_sequences
--
-- Returns the sequences that would give out again what the tables hold, and if asked sets them
-- behind it. A database that was filled by logical replication has such sequences, since their
-- values do not come along.
--
--   $1 schema  text, quoted as an identifier
--   $2 raise   boolean: set them; the transaction has run lock_schema before
--
-- setval waits for nobody, so others may take values meanwhile. They begin far below, and would
-- have to take a million of them before this statement ends to reach those that it leaves out.
WITH RECURSIVE last_ready AS (
    -- The last row in the queue of each action and priority, from the last action to the first.
    (SELECT ready.action, ready.rank
     FROM stint.ready
     ORDER BY ready.action DESC, ready.rank DESC
     LIMIT 1)
    UNION ALL
    SELECT before.action, before.rank
    FROM last_ready
    CROSS JOIN LATERAL (
        SELECT ready.action, ready.rank
        FROM stint.ready
        WHERE (ready.action, ready.rank) < (last_ready.action, last_ready.rank >> 47 << 47)
        ORDER BY ready.action DESC, ready.rank DESC
        LIMIT 1
    ) AS before
), used AS (
    SELECT 'blocks' AS name, blocks.last_value + blocks.is_called::integer AS next,
           (SELECT max(tasks.key) >> 10 FROM stint.tasks) AS last
    FROM stint.blocks
    UNION ALL
    SELECT 'positions', positions.last_value + positions.is_called::integer,
           (SELECT max(last_ready.rank & (1::bigint << 47) - 1) FROM last_ready)
    FROM stint.positions
)
SELECT used.name,
       CASE WHEN $2::boolean
            THEN setval(($1::text || '.' || used.name)::regclass, used.last + 1000000)
       END AS raised
FROM used
WHERE used.next <= used.last
