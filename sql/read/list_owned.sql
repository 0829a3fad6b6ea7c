-- name: list_owned
--
-- Returns the first $3 tasks behind $2, by key, that actor $1 owns, in the form of list_ids.
--
--   $1 actor  text
--   $2 key    bigint
--   $3 tasks  integer
SELECT task.key, NULL::timestamptz AS at, NULL::bigint AS rank, NULL::text AS id
FROM (
    -- Leases are one row per fetch under way, so they are read from end to end, as in
    -- list_problems.
    -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
    SELECT leases.claim, leases.part, leases.spans || '{}'::bigint[] AS spans
    FROM stint.leases
    WHERE leases.actor = $1::text
    OFFSET 0
) AS lease
CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS pair (n)
CROSS JOIN LATERAL (
    SELECT leased.lo, leased.hi
    FROM stint.leased
    WHERE leased.lo BETWEEN lease.spans[pair.n][1] AND lease.spans[pair.n][2]
      AND leased.claim = lease.claim AND leased.part = lease.part AND leased.hi > $2::bigint
    OFFSET 0
) AS leased
CROSS JOIN LATERAL generate_series(greatest(leased.lo, $2::bigint + 1), leased.hi) AS task (key)
ORDER BY task.key
LIMIT $3::integer
