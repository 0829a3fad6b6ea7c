-- part: span_of_key
--
-- The row of {table} that may hold the key {key}: the last that begins in the key's block of 1,024,
-- at the key or ahead of it. It holds the key if hi is not below that.
SELECT {table}.lo, {table}.hi
FROM stint.{table}
WHERE {table}.lo BETWEEN {key} >> 10 << 10 AND {key}
ORDER BY {table}.lo DESC
LIMIT 1
