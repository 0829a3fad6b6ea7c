-- part: bring_back
--
-- Brings so many parked tasks of each key of turn back to the very beginning of the queue of its
-- action as it says; those that somebody else has locked stay.
back AS MATERIALIZED (
    SELECT turn.tasks, span.*
    FROM turn
    CROSS JOIN LATERAL (
        SELECT ready.position, ready.lo, ready.hi, ready.action, ready.priority,
               ready.tries, ready.completed, ready.aborted, ready.ready_at, ready.limit_key,
               ready.rank
        FROM stint.ready
        WHERE ready.action = turn.action AND ready.limit_key = turn.limit_key
          AND ready.position < 0 AND ready.rank BETWEEN turn.first AND turn.last
        ORDER BY ready.action, ready.limit_key, ready.rank, ready.hi
        LIMIT turn.tasks
        FOR UPDATE SKIP LOCKED
    ) AS span
    WHERE turn.tasks > 0
), part AS MATERIALIZED (
    -- Of each span the tasks up to last.
    SELECT counted.*, least(counted.hi, counted.lo + counted.tasks - counted.before - 1) AS last
    FROM (
        SELECT back.*, (sum(back.hi - back.lo + 1) OVER of_key)::bigint - (back.hi - back.lo + 1)
                   AS before
        FROM back
        WINDOW of_key AS (PARTITION BY back.action, back.limit_key, back.priority
                          ORDER BY back.rank, back.hi)
    ) AS counted
    WHERE counted.before < counted.tasks
), moved AS (
    -- By lo, not by place: the row may have a version that is younger than the snapshot.
    UPDATE stint.ready
    SET position = 0,
        hi = (ARRAY(SELECT part.last FROM part ORDER BY part.lo))[
            width_bucket(ready.lo, ARRAY(SELECT part.lo FROM part ORDER BY part.lo))]
    WHERE ready.lo = ANY (ARRAY(SELECT part.lo FROM part))
), rest AS (
    INSERT INTO stint.ready (position, lo, hi, action, priority, tries, completed, aborted,
                             ready_at, limit_key)
    SELECT part.position, part.last + 1, part.hi, part.action, part.priority, part.tries,
           part.completed, part.aborted, part.ready_at, part.limit_key
    FROM part
    WHERE part.last < part.hi
)
