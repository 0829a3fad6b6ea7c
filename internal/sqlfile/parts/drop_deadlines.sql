-- part: drop_deadlines
--
-- Deletes the deadlines of the definitions that go.
DELETE FROM stint.deadlines
USING (
    SELECT deadline.tid
    FROM definition
    CROSS JOIN LATERAL (
        SELECT deadlines.ctid AS tid
        FROM stint.deadlines
        WHERE deadlines.deadline = definition.deadline AND deadlines.key = definition.key
        OFFSET 0
    ) AS deadline
) AS limits
WHERE deadlines.ctid = limits.tid
