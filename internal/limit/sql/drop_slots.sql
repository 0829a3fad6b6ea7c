-- name: drop_slots
--
-- Looks at $4 slots behind the place $1, $2, $3, and drops those that are free, since the task that
-- held them is not owned any more, and does not hold its key in strict order either. Returns how
-- many it dropped, and the place of the last, null if there are no more.
--
--   $1 action     text
--   $2 limit_key  text
--   $3 slot       integer
--   $4 slots      integer
WITH seen AS MATERIALIZED (
    SELECT slots.action, slots.limit_key, slots.slot, slots.key, slots.claim
    FROM stint.slots
    WHERE (slots.action, slots.limit_key, slots.slot)
          OPERATOR(pg_catalog.>) ($1::text, $2::text, $3::integer)
    ORDER BY slots.action, slots.limit_key, slots.slot
    LIMIT $4::integer
), free AS MATERIALIZED (
    -- A slot that somebody takes at this moment stays.
    SELECT slot.tid
    FROM seen
    LEFT JOIN LATERAL (
        -- include span_of_key: table=leased; key=seen.key; columns=leased.hi, leased.claim
    ) AS leased ON true
    CROSS JOIN LATERAL (
        SELECT slots.ctid AS tid
        FROM stint.slots
        WHERE slots.action = seen.action AND slots.limit_key = seen.limit_key
          AND slots.slot = seen.slot AND slots.claim = seen.claim
        FOR UPDATE SKIP LOCKED
    ) AS slot
    WHERE (leased.hi < seen.key OR leased.claim <> seen.claim OR leased.hi IS NULL)
      AND (SELECT true
           FROM stint.holders
           WHERE holders.action = seen.action AND holders.limit_key = seen.limit_key
             AND holders.key = seen.key
           LIMIT 1) IS NULL
), dropped AS (
    DELETE FROM stint.slots
    USING free
    WHERE slots.ctid = free.tid
)
SELECT (SELECT count(*) FROM free) AS dropped, last.action, last.limit_key, last.slot
FROM (VALUES (true)) AS answer (one)
LEFT JOIN (
    SELECT seen.action, seen.limit_key, seen.slot
    FROM seen
    ORDER BY seen.action, seen.limit_key, seen.slot
    OFFSET $4::integer - 1
) AS last ON true
