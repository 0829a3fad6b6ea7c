-- name: judge_tokens
--
-- Says of tokens that were refused what became of their task: whether a task of that ID exists,
-- how the performance with that token ended the task, if it did, and whether it gave the task back
-- for another try that nobody has begun.
--
--   $1 keys    bigint[]
--   $2 claims  bigint[]
--   $3 ids     text[]
SELECT named.place,
       EXISTS (SELECT FROM stint.tasks WHERE tasks.id = named.id) AS known,
       (SELECT finished.cause
        FROM stint.finished
        JOIN stint.tasks ON tasks.key = finished.key
        WHERE finished.key = named.key AND finished.claim = named.claim AND tasks.id = named.id
       ) AS cause,
       EXISTS (SELECT FROM stint.ready
               WHERE ready.lo = named.key AND ready.claim = named.claim AND NOT ready.late)
       OR EXISTS (SELECT FROM stint.scheduled
                  WHERE scheduled.key = named.key AND scheduled.claim = named.claim) AS again
FROM unnest($1::bigint[], $2::bigint[], $3::text[])
    WITH ORDINALITY AS named (key, claim, id, place)
