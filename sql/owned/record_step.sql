-- name: record_step
--
-- Records what steps of owned tasks returned, if the tasks are owned with these claims and have
-- room for them. Element i of each array is a step. Returns the steps that were recorded by this
-- call, with their results; those that were recorded before, with these; and those for which there
-- is no room. A step that is not in the answer is of a task that is not owned so, or shares its row
-- with others; or another call has recorded it meanwhile.
--
--   $1 keys     bigint[], sorted
--   $2 claims   bigint[]
--   $3 names    text[]
--   $4 results  bytea[]
--   $5 steps    integer: how many a task may have
--   $6 bytes    bigint: how many their results may have together
WITH named AS MATERIALIZED (
    SELECT named.*, row_number() OVER ahead AS steps,
           sum(octet_length(named.result)) OVER ahead AS bytes
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[])
        WITH ORDINALITY AS named (key, claim, name, result, place)
    WINDOW ahead AS (PARTITION BY named.key ORDER BY named.place)
    ORDER BY named.key, named.place
), owned AS MATERIALIZED (
    -- The lock lets nobody be given the task before this transaction ends. So whoever is given it
    -- next finds the step. Its owner may extend the lease meanwhile, and record other steps: so
    -- transactions at the same time may exceed the room together.
    SELECT named.*
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.claim
        FROM stint.leased
        WHERE leased.lo = named.key AND leased.hi = named.key AND leased.claim = named.claim
        FOR KEY SHARE
    ) AS leased
), judged AS MATERIALIZED (
    -- No value is read for its length.
    SELECT owned.key, owned.name, owned.result, recorded.found, recorded.result AS before,
           kept.steps + owned.steps <= $5::integer
               AND kept.bytes + owned.bytes <= $6::bigint AS fits
    FROM owned
    LEFT JOIN LATERAL (
        SELECT true AS found, steps.result
        FROM stint.steps
        WHERE steps.key = owned.key AND steps.name = owned.name
        OFFSET 0
    ) AS recorded ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS steps, coalesce(sum(octet_length(steps.result)), 0) AS bytes
        FROM stint.steps
        WHERE steps.key = owned.key
    ) AS kept
), added AS (
    INSERT INTO stint.steps (key, name, result)
    SELECT judged.key, judged.name, judged.result
    FROM judged
    WHERE judged.found IS NULL AND judged.fits
    ON CONFLICT ON CONSTRAINT steps_pkey DO NOTHING
    RETURNING steps.key, steps.name, steps.result
)
SELECT added.key, added.name, true AS known, added.result FROM added
UNION ALL
SELECT judged.key, judged.name, judged.found IS NOT NULL, judged.before
FROM judged
WHERE judged.found OR NOT judged.fits
