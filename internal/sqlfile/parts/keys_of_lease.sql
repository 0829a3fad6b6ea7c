-- part: keys_of_lease
--
-- Joins the rows of lease with the keys of the tasks that are under it, the first $1 of each.
-- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
CROSS JOIN LATERAL (SELECT lease.spans || '{}'::bigint[] AS spans OFFSET 0) AS unpacked
CROSS JOIN LATERAL (
    SELECT span.key
    FROM generate_subscripts(unpacked.spans, 1) AS pair (n)
    CROSS JOIN LATERAL (
        SELECT leased.lo, leased.hi
        FROM stint.leased
        WHERE leased.lo BETWEEN unpacked.spans[pair.n][1] AND unpacked.spans[pair.n][2]
          AND leased.claim = lease.claim AND leased.part = lease.part
        OFFSET 0
    ) AS leased
    CROSS JOIN LATERAL generate_series(
        leased.lo, least(leased.hi, leased.lo + $1::integer - 1)) AS span (key)
    LIMIT $1::integer
) AS span
