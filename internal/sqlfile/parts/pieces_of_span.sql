-- part: pieces_of_span
--
-- Of each row of gone the tasks with its keys, and the gaps between them. A gap ends ahead of a
-- task or at the end of the span, and begins behind the task before or where the span begins; it is
-- empty if its lo is above its hi.
SELECT named.key AS lo, named.key AS hi
FROM unnest(gone.keys) AS named (key)
UNION ALL
SELECT coalesce(lag(border.key) OVER (ORDER BY border.key) + 1, gone.lo), border.key - 1
FROM (
    SELECT named.key FROM unnest(gone.keys) AS named (key)
    UNION ALL
    SELECT gone.hi + 1
) AS border (key)
