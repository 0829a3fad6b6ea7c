-- Reads tasks by their numbers.
SELECT key, id, body FROM raw_job WHERE key = ANY ($1::bigint[])
