-- name: note_spent
--
-- Notes what the performances that return_tasks, behind it in the same transaction, is about to end
-- have spent more than the costs of their tasks, or less, where the limits of the action count
-- costs. Element i of each array belongs to a span of returns, as in return_tasks; one that says
-- what was spent is of one task, which has been split off. What is not owned with this claim is
-- passed over, as return_tasks does.
--
--   $1 lo      bigint[], sorted
--   $2 hi      bigint[]
--   $3 claims  bigint[]
--   $4 spent   bigint[], null elements: as much as the task costs
WITH named AS MATERIALIZED (
    SELECT *
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS named (lo, hi, claim, spent)
), owned AS MATERIALIZED (
    -- As in remember_tries, all rows are locked, in the order in which return_tasks deletes them.
    SELECT named.lo, named.claim, named.spent
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.lo
        FROM stint.leased
        WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
          AND leased.claim = named.claim
        ORDER BY leased.lo
        FOR UPDATE
    ) AS leased
)
INSERT INTO stint.spent (key, claim, more, priority, action, limit_key)
SELECT owned.lo, owned.claim, owned.spent - coalesce(task.cost, 1), task.priority, task.action,
       coalesce(task.limit_key, '')
FROM owned
CROSS JOIN LATERAL (
    SELECT tasks.action, tasks.limit_key, tasks.cost, tasks.priority
    FROM stint.tasks
    WHERE tasks.key = owned.lo
    OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT limits.action
    FROM stint.limits
    WHERE limits.action = task.action AND limits.by_cost
    OFFSET 0
) AS limits
WHERE owned.spent IS NOT NULL AND owned.spent <> coalesce(task.cost, 1)
ON CONFLICT (action, key, claim) DO NOTHING
