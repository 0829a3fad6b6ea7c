-- name: note_spent
--
-- Notes what the performances that return_tasks, behind it in the same transaction, is about to end
-- have spent more than the costs of their tasks, or less, where the limits of the action count
-- costs. Element i of each array belongs to a span of returns, as in return_tasks; one that says
-- what was spent is of one task, which has been split off. What is not owned with this claim is
-- passed over, as return_tasks does.
--
--   $1 lo      bigint[], sorted
--   $2 hi      bigint[]
--   $3 claims  bigint[]
--   $4 spent   bigint[], null elements: as much as the task costs
WITH named AS MATERIALIZED (
    SELECT *
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS named (lo, hi, claim, spent)
), owned AS MATERIALIZED (
    -- As in remember_tries, all rows are locked, in the order in which return_tasks deletes them.
    SELECT named.lo AS key, named.claim, named.spent
    FROM named
    CROSS JOIN LATERAL (
        SELECT leased.lo
        FROM stint.leased
        WHERE leased.lo BETWEEN named.lo AND named.hi AND leased.hi <= named.hi
          AND leased.claim = named.claim
        ORDER BY leased.lo
        FOR UPDATE
    ) AS leased
)
-- include note_spending: ended=owned
