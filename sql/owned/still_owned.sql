-- name: still_owned
--
-- Returns those of the performances that are still good: the task is owned with that claim, or its
-- lease expired and nobody was given it since (R8).
--
--   $1 keys    bigint[]
--   $2 claims  bigint[]
--   $3 ends    boolean: good for a return. Otherwise a lease of an action with limits that has
--              expired is not good (R9)
SELECT named.key, named.claim
FROM unnest($1::bigint[], $2::bigint[]) AS named (key, claim)
WHERE (SELECT span.claim
       FROM (
           -- include span_of_key: table=leased; key=named.key; columns=leased.hi, leased.claim
       ) AS span
       WHERE span.hi >= named.key) = named.claim
   OR (SELECT ready.claim
       FROM stint.ready
       WHERE ready.lo = named.key AND ready.late
         AND ($3::boolean OR (SELECT true
                              FROM stint.limits
                              WHERE limits.action = ready.action) IS NULL)) = named.claim
