-- name: pause_keys
--
-- Pauses keys of an action. One that is paused already stays so since when it was.
--
--   $1 action  text
--   $2 keys    text[], sorted
WITH limited AS (
    -- Hand-outs look at the keys of actions that have a row.
    INSERT INTO stint.limits (action)
    SELECT $1::text
    WHERE cardinality($2::text[]) > 0
    ON CONFLICT (action) DO NOTHING
)
INSERT INTO stint.limited_keys (action, limit_key, paused_at)
SELECT $1::text, named.key, statement_timestamp()
FROM unnest($2::text[]) AS named (key)
ON CONFLICT (action, limit_key) DO UPDATE
SET paused_at = excluded.paused_at
WHERE limited_keys.paused_at IS NULL
