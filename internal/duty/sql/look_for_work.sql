-- name: look_for_work
--
-- Looks whether there is work that some store has to do in the background, and does none of it.
-- Returns in how long scheduled tasks, leases or deadlines are due, and in how long a schedule is,
-- null if that is more than a second; whether tasks with FailFast may have been aborted lately,
-- whether there is something of limits to tidy up, whether something else is kept that may have to
-- be, whether some task is ready, whether one is in progress, whether there are sessions of others,
-- and whether the news were told. They are if there is nothing to do now.
--
--   $1 channel  text
--   $2 news     text: a payload, empty if there are none
--   $3 busy     text: what comes behind them if some task is in progress
--   $4 whole    boolean: whether to look for ready tasks, too, for what there is of limits, and for
--                 what was due more than 5 s ago. Under a transaction that has been open for long,
--                 that walks the dead entries of all that has gone since
--   $5 session  bigint: of this store
WITH looked AS MATERIALIZED (
    SELECT least(
               (SELECT scheduled.not_before
                FROM stint.scheduled
                WHERE scheduled.not_before <= statement_timestamp() + interval '1 s'
                  AND scheduled.not_before > CASE
                      WHEN $4::boolean THEN '-infinity'
                      ELSE statement_timestamp() - interval '5 s'
                  END
                ORDER BY scheduled.not_before
                LIMIT 1),
               (SELECT leases.deadline
                FROM stint.leases
                WHERE leases.deadline <= statement_timestamp() + interval '1 s'
                  AND leases.deadline > CASE
                      WHEN $4::boolean THEN '-infinity'
                      ELSE statement_timestamp() - interval '5 s'
                  END
                ORDER BY leases.deadline
                LIMIT 1),
               (SELECT deadlines.deadline
                FROM stint.deadlines
                WHERE deadlines.deadline <= statement_timestamp() + interval '1 s'
                  AND deadlines.deadline > CASE
                      WHEN $4::boolean THEN '-infinity'
                      ELSE statement_timestamp() - interval '5 s'
                  END
                ORDER BY deadlines.deadline
                LIMIT 1)
           ) - statement_timestamp() AS due_in,
           (SELECT schedules.next_at
            FROM stint.schedules
            WHERE schedules.next_at <= statement_timestamp() + interval '1 s'
            ORDER BY schedules.next_at
            LIMIT 1) - statement_timestamp() AS schedule_in,
           -- What lately_failed looks at, which says why.
           coalesce((SELECT true FROM stint.fail_fast WHERE fail_fast.key > 0 LIMIT 1)
                    AND (SELECT true
                         FROM stint.finished
                         WHERE finished.cause <> 0 /* completed */
                           AND finished.cause <> 8 /* skipped */
                           AND finished.finished_at > statement_timestamp() - interval '10 s'
                         LIMIT 1),
                    false) AS failed,
           CASE
               WHEN $4::boolean THEN coalesce(
                   (SELECT true
                    FROM stint.ready
                    WHERE ready.position < 0 AND ready.action > ''
                    ORDER BY ready.action, ready.limit_key
                    LIMIT 1),
                   (SELECT true FROM stint.slots WHERE slots.action > '' LIMIT 1),
                   (SELECT true FROM stint.key_rates WHERE key_rates.action > '' LIMIT 1))
           END IS NOT NULL AS limited,
           coalesce((SELECT true FROM stint.fail_fast WHERE fail_fast.key > 0 LIMIT 1),
                    (SELECT true FROM stint.steps WHERE steps.key > 0 LIMIT 1),
                    (SELECT true FROM stint.answer_keys WHERE answer_keys.key > 0 LIMIT 1),
                    (SELECT true FROM stint.tries WHERE tries.key > 0 LIMIT 1),
                    (SELECT true FROM stint.leases WHERE leases.deadline = 'infinity' LIMIT 1),
                    false) AS kept,
           (SELECT true
            FROM stint.ready
            WHERE $4::boolean AND ready.action > ''
            ORDER BY ready.action, ready.rank
            LIMIT 1) IS NOT NULL AS ready,
           -- From the end: leases that ended long ago are at the beginning, as dead entries.
           coalesce((SELECT true
                     FROM stint.leases
                     WHERE leases.deadline > statement_timestamp()
                     ORDER BY leases.deadline DESC
                     LIMIT 1), false) AS busy,
           (SELECT true
            FROM stint.sessions
            WHERE sessions.id <> $5::bigint
            LIMIT 1) IS NOT NULL AS others
), told AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true),
           pg_notify($1::text, $2::text || CASE WHEN looked.busy THEN $3::text ELSE '' END)
    FROM looked
    WHERE $2::text <> ''
      AND (looked.due_in <= interval '0') IS NOT TRUE
      AND (looked.schedule_in <= interval '0') IS NOT TRUE
      AND NOT looked.failed AND NOT looked.limited AND NOT looked.ready
)
SELECT looked.due_in, looked.schedule_in, looked.failed, looked.limited, looked.kept, looked.ready,
       looked.busy, looked.others, (SELECT count(*) FROM told) > 0 AS told
FROM looked
