-- name: set_limits
--
-- Sets the limits of an action in the place of those that it has; null is none. Pauses stay.
-- Returns whether the limits of keys are what they were.
--
--   $1 action       text
--   $2 concurrency  integer
--   $3 per_key      integer
--   $4 rate_tasks   integer
--   $5 rate_per     interval
--   $6 rate_burst   integer
--   $7 key_tasks    integer
--   $8 key_per      interval
--   $9 key_burst    integer
--   $10 fair        boolean
--   $11 ordered     boolean
--   $12 fair_group  text
--   $13 by_cost     boolean
WITH before AS (
    SELECT limits.per_key, limits.key_tasks, limits.key_per, limits.key_burst, limits.fair,
           limits.ordered, limits.by_cost
    FROM stint.limits
    WHERE limits.action = $1::text
)
INSERT INTO stint.limits
    (action, concurrency, per_key, rate_tasks, rate_per, rate_burst, key_tasks, key_per, key_burst,
     fair, ordered, fair_group, by_cost, tokens)
VALUES ($1::text, $2::integer, $3::integer, $4::integer, $5::interval, $6::integer, $7::integer,
        $8::interval, $9::integer, $10::boolean, $11::boolean, $12::text, $13::boolean,
        coalesce($6::integer, 0))
ON CONFLICT (action) DO UPDATE
SET set_at = statement_timestamp(), concurrency = excluded.concurrency, per_key = excluded.per_key,
    rate_tasks = excluded.rate_tasks, rate_per = excluded.rate_per,
    rate_burst = excluded.rate_burst, key_tasks = excluded.key_tasks, key_per = excluded.key_per,
    key_burst = excluded.key_burst, fair = excluded.fair, ordered = excluded.ordered,
    fair_group = excluded.fair_group, by_cost = excluded.by_cost,
    -- A new bucket is full. One that is changed keeps what has come in until now, so that nobody
    -- gets tokens by setting limits again and again; if it does not count costs any more, it owes
    -- nothing: tokens were of another kind.
    tokens = CASE
                 WHEN num_nulls(limits.rate_tasks, excluded.rate_tasks) > 0 THEN excluded.tokens
                 ELSE least(
                     excluded.rate_burst, limits.rate_burst,
                     greatest(
                         CASE WHEN NOT excluded.by_cost THEN 0 END,
                         limits.tokens + limits.rate_tasks
                             * date_part('epoch', greatest(
                                 statement_timestamp() - limits.refilled_at, interval '0'))
                             / date_part('epoch', limits.rate_per)))
             END,
    -- This statement may have waited for a fetch that refilled the bucket later than it began.
    -- What is later than now is of a clock that was ahead.
    refilled_at = greatest(statement_timestamp(), least(limits.refilled_at, clock_timestamp()))
RETURNING coalesce((SELECT before FROM before) IS NOT DISTINCT FROM
                   ROW($3::integer, $7::integer, $8::interval, $9::integer, $10::boolean,
                       $11::boolean, $13::boolean), false)
              AS same,
          coalesce((SELECT ROW(before.key_tasks, before.key_per, before.key_burst, before.by_cost)
                    FROM before) IS NOT DISTINCT FROM
                   ROW($7::integer, $8::interval, $9::integer, $13::boolean), false)
              AS kept
