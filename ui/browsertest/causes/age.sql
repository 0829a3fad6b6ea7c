-- Has all inserts and fetches been so much longer ago, as if nobody had looked for so long.
--
--   $1 by  interval
WITH inserted AS (
    UPDATE stint.tasks SET inserted_at = inserted_at - $1::interval
)
UPDATE stint.leases SET owned_at = owned_at - $1::interval
