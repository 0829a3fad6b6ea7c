-- part: span_of_key
--
-- The span of {table} in which {key} may be: the last that begins in the block of 1,024 keys of it,
-- at the key or ahead of it. It holds the key if hi is not below that.
SELECT {columns}
FROM stint.{table}
WHERE {table}.lo BETWEEN {key} >> 10 << 10 AND {key}
ORDER BY {table}.lo DESC
LIMIT 1
