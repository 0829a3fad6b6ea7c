-- name: note_late
--
-- Takes returns for another try of tasks that the expiry of their last try has ended: the return
-- would have ended them in the same way, and says why, and what was spent. Returns the places of
-- the returns that it takes.
--
--   $1 keys      bigint[], sorted
--   $2 claims    bigint[]
--   $3 statuses  text[]
--   $4 spent     bigint[], null elements: as much as the task costs
WITH said AS MATERIALIZED (
    -- Such a task has the complement of its claim, and is alone in its row. Waits for somebody who
    -- is making the same return, or pruning or reopening the task; rows are locked in the order of
    -- lo.
    SELECT named.place, named.key, named.claim, named.status, named.spent
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])
        WITH ORDINALITY AS named (key, claim, status, spent, place)
    CROSS JOIN LATERAL (
        SELECT finished.lo
        FROM stint.finished
        WHERE finished.lo = named.key AND finished.claim = ~named.claim
        FOR UPDATE
    ) AS finished
), late AS (
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
    RETURNING late.place, late.key, late.claim, late.spent
), noted AS (
    -- include note_spending: ended=late
)
SELECT late.place FROM late
