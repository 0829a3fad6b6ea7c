-- name: count_dropped
--
-- Returns how many tasks there are, how many tasks of the task store, and how many stores are
-- connected: those that listen, each of which holds a lock with the number of its session.
SELECT (SELECT count(*) FROM stint.tasks) AS tasks,
       (SELECT count(*) FROM stint.taskstore_tasks) AS stored,
       (SELECT count(*)
        FROM stint.sessions
        WHERE EXISTS (
            SELECT FROM pg_locks
            WHERE pg_locks.locktype = 'advisory' AND pg_locks.granted AND pg_locks.objsubid = 1
              AND pg_locks.database = (SELECT oid FROM pg_database
                                       WHERE datname = current_database())
              AND (pg_locks.classid::bigint << 32) | pg_locks.objid::bigint = sessions.id
        )) AS stores
