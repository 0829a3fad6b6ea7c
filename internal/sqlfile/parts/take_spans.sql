-- part: take_spans
--
-- Takes the rows of {table} that cut names by their lo away, with the columns {kept} of cut: for
-- gone, from which they go back in pieces.
locked AS MATERIALIZED (
    -- Waits for somebody who is taking the row or its neighbours at this moment; the row is then
    -- gone. Rows are locked in the order of lo.
    SELECT cut.*
    FROM cut
    CROSS JOIN LATERAL (
        SELECT {table}.lo FROM stint.{table} WHERE {table}.lo = cut.lo FOR UPDATE
    ) AS {table}
), gone AS (
    -- LATERAL with OFFSET 0 is a fence, as in return_tasks. The pieces are made from the deleted
    -- row, since its lo must be free before the first piece takes it.
    DELETE FROM stint.{table}
    USING (
        SELECT locked.*, {table}.tid
        FROM locked
        CROSS JOIN LATERAL (
            SELECT {table}.ctid AS tid FROM stint.{table} WHERE {table}.lo = locked.lo OFFSET 0
        ) AS {table}
    ) AS span
    WHERE {table}.ctid = span.tid
    RETURNING {table}.*, {kept}
)
