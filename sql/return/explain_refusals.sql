-- name: explain_refusals
--
-- Says for each of the tokens that were refused, by place, what became of its task. A claim belongs
-- to one fetch and, in a token, to one ID, so key and claim suffice to find the performance.
--
--   $1 keys    bigint[]
--   $2 claims  bigint[]
--   $3 ids     text[]
--
-- Lookups are scalar subqueries, not EXISTS: PostgreSQL 18 makes a hash of the whole table out of
-- an EXISTS where it believes the table to be small, whatever the settings.
SELECT named.place,
       -- Whether there is a task with the ID.
       (SELECT true FROM stint.tasks WHERE tasks.id = named.id) IS NOT NULL AS known,
       -- How the performance ended the task, null if it did not.
       (SELECT span.cause
        FROM (
            -- include span_of_key: table=finished; key=named.key;
            --   columns=finished.hi, finished.claim, finished.cause
        ) AS span
        WHERE span.hi >= named.key AND span.claim = named.claim
          AND (SELECT true FROM stint.tasks WHERE tasks.key = named.key)
       ) AS cause,
       -- Whether the performance gave the task back for another try that nobody has begun.
       coalesce(
           (SELECT true
            FROM stint.ready
            WHERE ready.lo = named.key AND ready.claim = named.claim AND NOT ready.late),
           (SELECT true
            FROM stint.scheduled
            WHERE scheduled.key = named.key AND scheduled.claim = named.claim),
           (SELECT true
            FROM stint.blocked
            WHERE blocked.key = named.key AND blocked.claim = named.claim),
           false
       ) AS again,
       -- Whether the token is good after all: an edge that was added after the task made
       -- return_tasks pass it over.
       coalesce(
           (SELECT true
            FROM (
                -- include span_of_key: table=leased; key=named.key;
                --   columns=leased.hi, leased.claim
            ) AS span
            WHERE span.hi >= named.key AND span.claim = named.claim),
           false
       ) AS owned,
       -- Whether the expiry of its last try ended the task, and the owner has not said why
       -- (note_late).
       (SELECT true
        FROM stint.finished
        WHERE finished.lo = named.key AND finished.claim = ~named.claim) IS NOT NULL AS unsaid
FROM unnest($1::bigint[], $2::bigint[], $3::text[])
    WITH ORDINALITY AS named (key, claim, id, place)
