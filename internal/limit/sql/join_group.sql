-- name: join_group
--
-- Gives the turns of an action that is about to come to another group of fair actions the passes of
-- that group: those of the same key, or else that of the key that is next. Otherwise its keys would
-- have to wait, or let all others wait, until one pass has reached the other. Somebody else may not
-- deal turns of the action meanwhile: it runs behind lock_limits. Turns are locked in the order of
-- their keys, as all who lock them do.
--
--   $1 action  text
--   $2 group   text; empty: none
WITH turn AS MATERIALIZED (
    SELECT turns.ctid AS tid, turns.limit_key, turns.tier
    FROM stint.turns
    WHERE turns.action = $1::text AND $2::text <> ''
      AND (SELECT limits.fair_group FROM stint.limits WHERE limits.action = $1::text) <> $2::text
    ORDER BY turns.action, turns.limit_key, turns.tier
    FOR UPDATE
), member AS MATERIALIZED (
    SELECT limits.action
    FROM stint.limits
    WHERE limits.fair_group = $2::text AND limits.fair_group <> ''
), least AS MATERIALIZED (
    SELECT tiers.tier, coalesce(
               min(first.pass) FILTER (WHERE NOT first.held), min(first.pass)) AS pass
    FROM (SELECT DISTINCT turn.tier FROM turn) AS tiers
    CROSS JOIN member
    CROSS JOIN (VALUES (false), (true)) AS state (held)
    CROSS JOIN LATERAL (
        SELECT turns.pass, turns.held
        FROM stint.turns
        WHERE turns.action = member.action AND turns.held = state.held AND turns.tier = tiers.tier
        ORDER BY turns.action, turns.held, turns.tier, turns.pass
        LIMIT 1
    ) AS first
    GROUP BY tiers.tier
)
UPDATE stint.turns
SET pass = joining.pass
FROM (
    SELECT turn.tid, greatest(own.pass, least.pass - 32000000) AS pass
    FROM turn
    JOIN least ON least.tier = turn.tier
    CROSS JOIN LATERAL (
        SELECT coalesce(max(of_key.pass), least.pass) AS pass
        FROM member
        CROSS JOIN LATERAL (
            -- Between and in order, for which turns_pkey is good and turns_order is not.
            SELECT turns.pass
            FROM stint.turns
            WHERE turns.action = member.action AND turns.tier = turn.tier
              AND turns.limit_key BETWEEN turn.limit_key AND turn.limit_key
            ORDER BY turns.action, turns.limit_key, turns.tier
            LIMIT 1
        ) AS of_key
    ) AS own
) AS joining
WHERE turns.ctid = joining.tid
