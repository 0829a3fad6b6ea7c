-- part: note_spending
--
-- Notes what {ended}, which has key, claim and spent, has spent more than the costs of the tasks,
-- or less, where the limits of the action count costs.
INSERT INTO stint.spent (key, claim, more, priority, action, limit_key)
SELECT {ended}.key, {ended}.claim, {ended}.spent - coalesce(task.cost, 1), task.priority,
       task.action, coalesce(task.limit_key, '')
FROM {ended}
CROSS JOIN LATERAL (
    SELECT tasks.action, tasks.limit_key, tasks.cost, tasks.priority
    FROM stint.tasks
    WHERE tasks.key = {ended}.key
    OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT limits.action
    FROM stint.limits
    WHERE limits.action = task.action AND limits.by_cost
    OFFSET 0
) AS limits
WHERE {ended}.spent IS NOT NULL AND {ended}.spent <> coalesce(task.cost, 1)
ON CONFLICT (action, key, claim) DO NOTHING
