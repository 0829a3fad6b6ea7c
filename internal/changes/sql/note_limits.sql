-- name: note_limits
--
-- Notes that somebody sets the limits of an action, from what to what, if they are others than
-- before. The transaction holds the lock of lock_limiting.
--
--   $1 number       bigint, random
--   $2 verb         text
--   $3 author       text
--   $4 reason       text, null: none
--   $5 action       text
--   $6 concurrency  integer, null: none, as the others
--   $7 per_key      integer
--   $8 rate_tasks   integer
--   $9 rate_per     interval
--   $10 rate_burst  integer
--   $11 key_tasks   integer
--   $12 key_per     interval
--   $13 key_burst   integer
--   $14 fair        boolean
--   $15 ordered     boolean
--   $16 fair_group  text
--   $17 by_cost     boolean
WITH said AS (
    SELECT version.place,
           coalesce(nullif(concat_ws(', ',
               'concurrency ' || version.concurrency, 'per key ' || version.per_key,
               'rate ' || version.rate_tasks || ' in '
                   || date_part('epoch', version.rate_per) || ' s, burst '
                   || version.rate_burst,
               'rate per key ' || version.key_tasks || ' in '
                   || date_part('epoch', version.key_per) || ' s, burst '
                   || version.key_burst,
               CASE WHEN version.fair THEN 'fair' END,
               CASE WHEN version.ordered THEN 'ordered' END,
               CASE WHEN version.by_cost THEN 'by cost' END,
               'fair group "' || nullif(version.fair_group, '') || '"'), ''), 'none') AS text
    FROM (
        SELECT 1 AS place, limits.concurrency, limits.per_key, limits.rate_tasks, limits.rate_per,
               limits.rate_burst, limits.key_tasks, limits.key_per, limits.key_burst, limits.fair,
               limits.ordered, limits.fair_group, limits.by_cost
        FROM (SELECT) AS always
        LEFT JOIN stint.limits ON limits.action = $5::text
        UNION ALL
        SELECT 2, $6::integer, $7::integer, $8::integer, $9::interval, $10::integer, $11::integer,
               $12::interval, $13::integer, $14::boolean, $15::boolean, $16::text,
               $17::boolean
    ) AS version
), change AS (
    SELECT max(said.text) FILTER (WHERE said.place = 1) AS before,
           max(said.text) FILTER (WHERE said.place = 2) AS after
    FROM said
)
INSERT INTO stint.changes (number, items, verb, author, action, reason, detail)
SELECT $1::bigint, 1, $2::text, $3::text, $5::text, $4::text,
       change.before || ' → ' || change.after
FROM change
WHERE change.before <> change.after
