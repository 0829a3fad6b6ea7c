-- Leases the first span under the claim $1, and returns its tasks. If $2, a row of the key of each
-- names the task and its claim, and tasks whose keys have rows of claims that go on are left out:
-- the least that a slot or a bucket of a key costs.
WITH taken AS (
    DELETE FROM raw_ready
    WHERE (limit_key, lo) = (
        SELECT limit_key, lo FROM raw_ready
        WHERE limit_key = '' ORDER BY limit_key, lo LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING lo, hi
), leased AS (
    INSERT INTO raw_leased (lo, hi, claim) SELECT lo, hi, $1::bigint FROM taken
), job AS MATERIALIZED (
    SELECT job.*
    FROM taken
    CROSS JOIN LATERAL (
        SELECT * FROM raw_job WHERE raw_job.key BETWEEN taken.lo AND taken.hi) AS job
), held AS (
    INSERT INTO raw_held (limit_key, key, claim)
    SELECT limit_key, key, $1::bigint FROM job WHERE $2::boolean ORDER BY limit_key
    ON CONFLICT (limit_key) DO UPDATE SET key = excluded.key, claim = excluded.claim
    WHERE NOT EXISTS (SELECT FROM raw_leased WHERE raw_leased.claim = raw_held.claim)
    RETURNING key
)
SELECT key, id, body FROM job
WHERE NOT $2::boolean OR key IN (SELECT key FROM held)
