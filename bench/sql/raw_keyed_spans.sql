-- Makes all tasks ready, $1 in each span.
INSERT INTO raw_ready (limit_key, lo, hi)
SELECT '', span.lo, least(span.lo + $1::bigint, last.key + 1) - 1
FROM (SELECT max(key) AS key FROM raw_job) AS last
CROSS JOIN LATERAL generate_series(0, last.key, $1::bigint) AS span (lo)
