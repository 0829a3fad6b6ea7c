-- name: note_late
--
-- Takes returns for another try of tasks that the expiry of their last try has ended: the return
-- would have ended them in the same way, and says why. Returns the places of the returns that it
-- takes.
--
--   $1 keys      bigint[], sorted
--   $2 claims    bigint[]
--   $3 statuses  text[]
WITH said AS MATERIALIZED (
    -- Such a task has the complement of its claim, and is alone in its row. Waits for somebody who
    -- is making the same return, or pruning or reopening the task; rows are locked in the order of
    -- lo.
    SELECT named.place, named.key, named.claim, named.status
    FROM unnest($1::bigint[], $2::bigint[], $3::text[])
        WITH ORDINALITY AS named (key, claim, status, place)
    CROSS JOIN LATERAL (
        SELECT finished.lo
        FROM stint.finished
        WHERE finished.lo = named.key AND finished.claim = ~named.claim
        FOR UPDATE
    ) AS finished
)
UPDATE stint.finished
-- From here on it has its claim, so that the return is taken once.
SET claim = late.claim, status = late.status
FROM (
    SELECT said.*, finished.tid
    FROM said
    CROSS JOIN LATERAL (
        SELECT finished.ctid AS tid FROM stint.finished WHERE finished.lo = said.key OFFSET 0
    ) AS finished
) AS late
WHERE finished.ctid = late.tid
RETURNING late.place
