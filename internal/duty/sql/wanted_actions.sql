-- name: wanted_actions
--
-- Returns those of the next $2 actions of which there are ready tasks, in their order behind $1,
-- that some session wants to hear of; and the last one looked at, null if there are no more.
--
--   $1 behind   text
--   $2 actions  integer
--   $3 prefix   text: what comes before an action in the topic of those who wait for it
WITH RECURSIVE walk AS (
    -- From one action to the next, however many tasks each has.
    (
        SELECT ready.action, 1 AS n
        FROM stint.ready
        WHERE ready.action > $1::text
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT 1
    )
    UNION ALL
    SELECT next.action, walk.n + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT ready.action
        FROM stint.ready
        WHERE ready.action > walk.action
        ORDER BY ready.action, ready.rank, ready.hi
        LIMIT 1
    ) AS next
    WHERE walk.n < $2::integer
), met AS MATERIALIZED (
    SELECT walk.action, walk.n FROM walk
), wanted AS (
    -- A set operation hashes, so that each topic of each session is read once.
    SELECT $3::text || met.action AS topic FROM met
    INTERSECT
    SELECT unnest(sessions.topics)
    FROM stint.sessions
    WHERE (SELECT true FROM met LIMIT 1)
)
SELECT ARRAY(SELECT substr(wanted.topic, length($3::text) + 1) FROM wanted) AS actions,
       (SELECT met.action FROM met WHERE met.n = $2::integer) AS last
