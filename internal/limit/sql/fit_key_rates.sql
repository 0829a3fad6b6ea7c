-- name: fit_key_rates
--
-- Fits the buckets of the keys of an action to the rate that these have now: one that would be full
-- later than the rate fills an empty bucket becomes empty, and without a rate there are no buckets.
-- Returns how many did not fit. One that somebody else is changing stays, so whoever wants all
-- looks again until all fit. A bucket that counts costs may owe tokens, again and again: so these
-- are looked at once, and stay as they are if the rate is what it was. Buckets are locked in order,
-- as all do: SKIP LOCKED waits for the next version of a row that has just been updated.
--
--   $1 action  text
--   $2 kept    boolean: the rate is what it was
WITH misfit AS MATERIALIZED (
    SELECT key_rates.limit_key, rate.full_at, rate.by_cost
    FROM (SELECT) AS always
    LEFT JOIN LATERAL (
        SELECT statement_timestamp() + limits.key_burst
                   * (date_part('epoch', limits.key_per) / limits.key_tasks)
                   * interval '1 s' AS full_at,
               limits.by_cost AND limits.key_tasks IS NOT NULL AS by_cost
        FROM stint.limits
        WHERE limits.action = $1::text
    ) AS rate ON true
    CROSS JOIN LATERAL (
        SELECT key_rates.limit_key, key_rates.full_at
        FROM stint.key_rates
        WHERE key_rates.action = $1::text
        ORDER BY key_rates.action, key_rates.limit_key
    ) AS key_rates
    WHERE (key_rates.full_at > rate.full_at AND NOT (rate.by_cost AND $2::boolean))
       OR rate.full_at IS NULL
), locked AS MATERIALIZED (
    SELECT misfit.full_at, key_rates.tid
    FROM misfit
    CROSS JOIN LATERAL (
        SELECT key_rates.ctid AS tid
        FROM stint.key_rates
        WHERE key_rates.action = $1::text AND key_rates.limit_key = misfit.limit_key
        FOR UPDATE SKIP LOCKED
    ) AS key_rates
), fitted AS (
    UPDATE stint.key_rates
    SET full_at = locked.full_at, seen_at = statement_timestamp()
    FROM locked
    WHERE key_rates.ctid = locked.tid AND locked.full_at IS NOT NULL
), dropped AS (
    DELETE FROM stint.key_rates
    USING locked
    WHERE key_rates.ctid = locked.tid AND locked.full_at IS NULL
)
SELECT count(*) FROM misfit WHERE misfit.by_cost IS NOT TRUE
