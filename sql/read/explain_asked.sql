-- name: explain_asked
--
-- Returns whether somebody asks for the tasks of a task's action, and what is known of the process
-- of its owner: when somebody last asked, which is now as long as a process that lives waits for
-- such tasks; how many actors are registered for the action at sessions that live, or attended by
-- stores whose sessions do; and of a task in progress 1 if the session of its owner lives, 2 if it
-- is gone, else null. Those who wait write nothing: their session has the topic.
--
--   $1 id      text
--   $2 prefix  text: what comes before an action in the topic of those who wait for it
WITH task AS MATERIALIZED (
    SELECT tasks.action,
           (SELECT actors.attendant
            FROM (
                -- include span_of_key: table=leased; key=tasks.key;
                --   columns=leased.hi, leased.claim, leased.part
            ) AS leased
            CROSS JOIN LATERAL (
                SELECT leases.session, leases.actor
                FROM stint.leases
                WHERE leases.claim = leased.claim AND leases.part = leased.part
                OFFSET 0
            ) AS lease
            CROSS JOIN LATERAL (
                SELECT actors.attendant
                FROM stint.actors
                WHERE actors.session = lease.session AND actors.actor = lease.actor
                OFFSET 0
            ) AS actors
            WHERE leased.hi >= tasks.key) AS attendant
    FROM stint.tasks
    WHERE tasks.id = $1::text
), concerned AS MATERIALIZED (
    SELECT session.*
    FROM task
    CROSS JOIN LATERAL (
        SELECT sessions.id, sessions.gone_at, sessions.id = task.attendant AS owns,
               $2::text || task.action = ANY (sessions.topics) AS waits,
               (SELECT count(*)
                FROM stint.actors
                WHERE actors.attendant = sessions.id AND task.action = ANY (actors.actions))
                   AS actors
        FROM stint.sessions
        OFFSET 0
    ) AS session
    WHERE session.owns OR session.waits OR session.actors > 0
), looked AS MATERIALIZED (
    -- The lock shows whether a session lives, also where nobody maintains, so that nobody notes
    -- that it is gone. A standby does not know the locks.
    SELECT concerned.owns, concerned.waits, concerned.actors,
           concerned.gone_at IS NULL
           AND (pg_is_in_recovery() OR concerned.id IN (
               -- include living_sessions
           )) AS lives
    FROM concerned
)
SELECT CASE
           WHEN (SELECT bool_or(looked.waits AND looked.lives) FROM looked)
           THEN statement_timestamp()
           ELSE (SELECT action_stats.asked_at
                 FROM stint.action_stats
                 WHERE action_stats.action = task.action)
       END AS asked_at,
       (SELECT coalesce(sum(looked.actors), 0) FROM looked WHERE looked.lives)::integer AS actors,
       (SELECT CASE WHEN looked.lives THEN 1 ELSE 2 END FROM looked WHERE looked.owns)::smallint
           AS owner
FROM task
