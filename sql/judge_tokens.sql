-- name: judge_tokens
--
-- Says of tokens that were refused, by place, what became of their task: whether a task of that ID
-- exists, how the performance with that token ended the task, if it did, whether it gave the task
-- back for another try that nobody has begun, and whether the token is good after all: an edge that
-- was added after the task made return_tasks pass it over.
--
--   $1 keys    bigint[]
--   $2 claims  bigint[]
--   $3 ids     text[]
--
-- Look-ups are scalar, not EXISTS: of that PostgreSQL 18 makes a hash of the whole table where it
-- believes the table to be small, settings or not.
SELECT named.place,
       (SELECT true FROM stint.tasks WHERE tasks.id = named.id) IS NOT NULL AS known,
       (SELECT finished.cause
        FROM stint.finished
        JOIN stint.tasks ON tasks.key = finished.key
        WHERE finished.key = named.key AND finished.claim = named.claim AND tasks.id = named.id
       ) AS cause,
       coalesce(
           (SELECT tasks.id = named.id
            FROM stint.ready
            JOIN stint.tasks ON tasks.key = ready.lo
            WHERE ready.lo = named.key AND ready.claim = named.claim AND NOT ready.late),
           (SELECT tasks.id = named.id
            FROM stint.scheduled
            JOIN stint.tasks ON tasks.key = scheduled.key
            WHERE scheduled.key = named.key AND scheduled.claim = named.claim),
           (SELECT tasks.id = named.id
            FROM stint.blocked
            JOIN stint.tasks ON tasks.key = blocked.key
            WHERE blocked.key = named.key AND blocked.claim = named.claim),
           false
       ) AS again,
       coalesce(
           (SELECT tasks.id = named.id
            FROM stint.leased
            JOIN stint.tasks ON tasks.key = leased.key
            WHERE leased.key = named.key AND leased.claim = named.claim),
           false
       ) AS owned
FROM unnest($1::bigint[], $2::bigint[], $3::text[])
    WITH ORDINALITY AS named (key, claim, id, place)
