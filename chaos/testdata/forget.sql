-- Takes completed tasks out of the store behind its back.
WITH gone AS (
    DELETE FROM stint.finished
    WHERE finished.cause = 0 AND finished.lo = finished.hi
    RETURNING finished.lo
)
DELETE FROM stint.tasks USING gone WHERE tasks.key = gone.lo
