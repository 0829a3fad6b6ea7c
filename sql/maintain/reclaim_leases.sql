-- name: reclaim_leases
--
-- Scans the first $1 leases behind the deadline $2 that have expired, or fewer if these hold $3
-- tasks, and takes back what they still hold. Tasks with tries left become ready (R8). The others,
-- and those that owners have lost $5 times in a row by now, are left to end_due_tasks (R13), since
-- settling them may have to wait for somebody.
--
--   $1 leases    integer
--   $2 deadline  timestamptz
--   $3 tasks     bigint
--   $4 history   boolean: keep the tries that ended so
--   $5 losses    integer, 0: any number
--
-- Returns the deadline of the last lease (null if there are no more), a zero where the other scans
-- return a key, how many rows of leased and leases are gone, the actions of the tasks that are
-- ready again, and the keys of those that must end; and the actions with limits of those
-- that are ready again, each with a limit_key, for which there is capacity until somebody takes it.
--
-- SKIP LOCKED passes over leases that are being extended and tasks that are being returned, which
-- stay for the next time. $2 is for these: however many there are, the next scan reads the leases
-- behind them.
WITH last AS MATERIALIZED (
    -- The scan ends with the lease that is number $1, or that makes the tasks $3. Leases that
    -- expire at the same moment are read together, so that none hides behind its own deadline.
    SELECT first.deadline
    FROM (
        SELECT leases.deadline, row_number() OVER so_far AS leases,
               sum(leases.size) OVER so_far AS tasks
        FROM (
            SELECT leases.deadline, leases.size
            FROM stint.leases
            WHERE leases.deadline > $2::timestamptz AND leases.deadline <= statement_timestamp()
            ORDER BY leases.deadline
            LIMIT $1::integer
        ) AS leases
        WINDOW so_far AS (ORDER BY leases.deadline ROWS UNBOUNDED PRECEDING)
    ) AS first
    WHERE first.leases = $1::integer OR first.tasks >= $3::bigint
    ORDER BY first.deadline
    LIMIT 1
), expired AS MATERIALIZED (
    -- Each subscript of a packed array would unpack all of it: || unpacks it once, here.
    SELECT lease.tid, lease.claim, lease.part, lease.actor, lease.owned_at,
           lease.spans || '{}'::bigint[] AS spans
    FROM (
        SELECT leases.*, leases.ctid AS tid
        FROM stint.leases
        WHERE leases.deadline > $2::timestamptz AND leases.deadline <= statement_timestamp()
          AND leases.deadline <= coalesce((SELECT last.deadline FROM last), statement_timestamp())
        FOR UPDATE SKIP LOCKED
    ) AS lease
), span AS MATERIALIZED (
    -- The rows that a lease still holds, or nulls if it holds none. some says that some of the
    -- tasks have tries left, every that all have. A task that was lost before is alone in its row.
    SELECT expired.tid AS lease, expired.claim, expired.part, expired.actor, expired.owned_at,
           leased.*
    FROM expired
    LEFT JOIN LATERAL (
        SELECT leased.lo, leased.hi, leased.version,
               (SELECT true
                FROM stint.tasks
                WHERE tasks.key BETWEEN leased.lo AND leased.hi
                  AND (tasks.max_tries = 0 OR leased.tries < tasks.max_tries)
                LIMIT 1) IS NOT NULL
               AND (
                   -- include lost_again: leased=leased; losses=$5
               ) IS NULL AS some,
               (SELECT true
                FROM stint.tasks
                WHERE tasks.key BETWEEN leased.lo AND leased.hi
                  AND tasks.max_tries > 0 AND leased.tries >= tasks.max_tries
                LIMIT 1) IS NULL AS every
        FROM generate_subscripts(expired.spans, 1) AS pair (n)
        CROSS JOIN LATERAL (
            SELECT leased.lo, leased.hi, leased.tries, leased.xmin AS version
            FROM stint.leased
            WHERE leased.lo BETWEEN expired.spans[pair.n][1] AND expired.spans[pair.n][2]
              AND leased.claim = expired.claim
              AND leased.part = expired.part
            OFFSET 0
        ) AS leased
    ) AS leased ON true
), held AS MATERIALIZED (
    -- A row that has a new version since the statement began is passed over like one that is
    -- locked. The rows are deleted by place, and what is deleted must be what was seen, or the
    -- lease would go without it.
    SELECT span.*, leased.tid
    FROM span
    LEFT JOIN LATERAL (
        SELECT leased.ctid AS tid
        FROM stint.leased
        WHERE leased.lo = span.lo AND leased.claim = span.claim AND leased.part = span.part
          AND leased.xmin = span.version
          AND span.some
        FOR UPDATE SKIP LOCKED
    ) AS leased ON true
), gone AS (
    DELETE FROM stint.leased
    USING held
    WHERE leased.ctid = held.tid
    RETURNING leased.*, held.actor, held.owned_at
), task AS MATERIALIZED (
    SELECT gone.*, task.key, task.action, task.priority, task.deadline, task.limit_key,
           task.max_tries, task.max_tries = 0 OR gone.tries < task.max_tries AS again
    FROM gone
    CROSS JOIN LATERAL (
        SELECT tasks.key, tasks.action, tasks.priority, tasks.deadline, tasks.max_tries,
               tasks.limit_key
        FROM stint.tasks
        WHERE tasks.key BETWEEN gone.lo AND gone.hi
        OFFSET 0
    ) AS task
), stuck AS (
    -- Where only some tasks of a row have tries left, the others stay, each alone in a row.
    INSERT INTO stint.leased (lo, hi, claim, tries, part, completed, aborted, ready_at,
                              limited_action)
    SELECT task.key, task.key, task.claim, task.tries, task.part, task.completed, task.aborted,
           task.ready_at, task.limited_action
    FROM task
    WHERE NOT task.again
), said AS MATERIALIZED (
    -- The status says how often the lease has expired since somebody last said something else: the
    -- first line, by which list_errors groups, is the same for all owners.
    SELECT task.*,
           concat_ws(E'\n',
               'lease expired on try ' || task.tries
                   || coalesce(' of ' || nullif(task.max_tries, 0), '')
                   || coalesce(', ' || nullif(expired.times, 1) || ' times by now', ''),
               'its owner ' || task.actor || ' did not extend it',
               CASE WHEN expired.times = 1 THEN left(task.status, 10000) END) AS expiry
    FROM task
    CROSS JOIN LATERAL (
        SELECT CASE
                   WHEN task.status LIKE 'lease expired on try %' THEN 1 + coalesce(
                       regexp_substr(task.status, '^.*, ([0-9]{1,6}) times by now', 1, 1, 'n', 1)
                           ::integer, 1)
                   ELSE 1
               END
    ) AS expired (times)
    WHERE task.again
), again AS (
    -- The position 0 puts the tasks ahead of the others of their priority. They are marked late, so
    -- that their owner may still return them until somebody else is given them.
    INSERT INTO stint.ready
        (position, lo, hi, claim, tries, completed, aborted, late, action, priority, deadline,
         actor, status, ready_at)
    SELECT 0, said.key, said.key, said.claim, said.tries, said.completed, said.aborted, true,
           said.action, said.priority, said.deadline, said.actor, said.expiry,
           statement_timestamp()
    FROM said
), remembered AS (
    INSERT INTO stint.tries (key, claim, owned_at, tries, outcome, actor, status)
    SELECT task.key, task.claim, task.owned_at, task.tries, 4 /* expired */, task.actor, task.status
    FROM task
    WHERE $4::boolean AND task.again
), counted AS (
    INSERT INTO stint.losses (key, tries, losses)
    SELECT task.key, task.tries, 1
    FROM task
    WHERE $5::integer > 0 AND task.again
    ON CONFLICT (key) DO UPDATE
    SET losses = CASE WHEN losses.tries = excluded.tries - 1 THEN losses.losses + 1 ELSE 1 END,
        tries = excluded.tries, ended_at = NULL
), emptied AS (
    -- A lease goes when it holds nothing any more.
    DELETE FROM stint.leases
    USING (
        SELECT held.lease
        FROM held
        GROUP BY held.lease
        HAVING bool_and(held.lo IS NULL OR held.tid IS NOT NULL AND held.every)
    ) AS empty
    WHERE leases.ctid = empty.lease
    RETURNING leases.claim
)
SELECT (SELECT last.deadline FROM last) AS deadline, 0::bigint AS key,
       (SELECT count(*) FROM gone) + (SELECT count(*) FROM emptied) AS done,
       ARRAY(SELECT DISTINCT task.action FROM task WHERE task.again) AS actions,
       ARRAY(
           SELECT task.key FROM task WHERE NOT task.again
           UNION ALL
           SELECT task.key
           FROM span
           CROSS JOIN LATERAL (
               SELECT tasks.key
               FROM stint.tasks
               WHERE tasks.key BETWEEN span.lo AND span.hi
               OFFSET 0
           ) AS task
           WHERE NOT span.some
       ) AS due,
       ARRAY(
           SELECT DISTINCT ARRAY[task.limited_action, task.limit_key]
           FROM task
           WHERE task.again AND task.limited_action IS NOT NULL AND task.limit_key IS NOT NULL
       ) AS capacity
