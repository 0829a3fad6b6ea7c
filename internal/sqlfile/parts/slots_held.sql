-- part: slots_held
--
-- How many tasks in progress hold a slot of the key {key} of the action {action}, if {per_key} says
-- how many may. The slot of a task that is not owned under the same claim any more is free.
SELECT count(*) AS slots
FROM (
    SELECT slots.key, slots.claim
    FROM stint.slots
    WHERE slots.action = {action} AND slots.limit_key = {key}
      AND {per_key} IS NOT NULL
    OFFSET 0
) AS slot
CROSS JOIN LATERAL (
    -- include span_of_key: table=leased; key=slot.key; columns=leased.hi, leased.claim
) AS leased
WHERE leased.hi >= slot.key AND leased.claim = slot.claim
