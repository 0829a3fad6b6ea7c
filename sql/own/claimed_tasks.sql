-- name: claimed_tasks
--
-- Returns the tasks that own_tasks fetched under claim $1, in the form and the order of
-- own_tasks: the spans of a lease are in the order in which they were taken. The caller asks when
-- the answer of own_tasks was lost; and behind the commit of own_gated and own_limited, which leave
-- the reading of the tasks to it.
--
--   $1 claim  bigint
--   $2 bytes  integer
--   $3 piece  integer
--   $4 short  integer: as in own_tasks
SELECT task.key, task.id, task.action,
       CASE WHEN octet_length(task.body) <= lease.most THEN task.body END,
       octet_length(task.body), leased.tries, task.max_tries, lease.deadline,
       leased.completed, leased.aborted, true AS signals, task.post_result, false AS alone,
       span.n::bigint AS rank, 0::bigint AS floor, task.limit_key, leased.limited,
       task.inserted_at, task.headers::text, NULL::bigint AS met
FROM (
    -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
    SELECT leases.claim, leases.part, leases.deadline, leases.spans || '{}'::bigint[] AS spans,
           least($3::integer, greatest($4::integer, $2::integer / nullif(leases.size, 0))) AS most
    FROM stint.leases
    WHERE leases.claim = $1::bigint
    OFFSET 0
) AS lease
CROSS JOIN LATERAL generate_subscripts(lease.spans, 1) AS span (n)
CROSS JOIN LATERAL (
    SELECT leased.lo, leased.hi, leased.tries, leased.completed, leased.aborted,
           leased.limited_action IS NOT NULL AS limited
    FROM stint.leased
    WHERE leased.lo BETWEEN lease.spans[span.n][1] AND lease.spans[span.n][2]
      AND leased.claim = lease.claim
      AND leased.part = lease.part
    OFFSET 0
) AS leased
CROSS JOIN LATERAL (
    SELECT tasks.key, tasks.id, tasks.action, tasks.body, tasks.max_tries, tasks.post_result,
           tasks.limit_key, tasks.inserted_at, tasks.headers
    FROM stint.tasks
    WHERE tasks.key BETWEEN leased.lo AND leased.hi
    OFFSET 0
) AS task
