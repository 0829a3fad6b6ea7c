-- Has all leases and deadlines end so much earlier, as if so much time had passed.
--
--   $1 by  interval
WITH overdue AS (
    UPDATE stint.tasks SET deadline = deadline - $1::interval WHERE deadline IS NOT NULL
), due AS (
    UPDATE stint.deadlines SET deadline = deadline - $1::interval
)
UPDATE stint.leases SET deadline = deadline - $1::interval
