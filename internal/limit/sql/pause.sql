-- name: forget_keys
--
-- Deletes the rows of keys that are not paused and have the usual weight.
--
--   $1 action  text
--   $2 keys    text[]
DELETE FROM stint.limited_keys
WHERE limited_keys.action = $1::text AND limited_keys.limit_key = ANY ($2::text[])
  AND limited_keys.paused_at IS NULL AND limited_keys.weight = 1

-- name: pause_actions
--
-- Pauses actions. One that is paused already stays so since when it was.
--
--   $1 actions  text[], sorted
INSERT INTO stint.limits (action, paused_at)
SELECT named.action, statement_timestamp()
FROM unnest($1::text[]) AS named (action)
ON CONFLICT (action) DO UPDATE
SET paused_at = excluded.paused_at
WHERE limits.paused_at IS NULL

-- name: pause_keys
--
-- Pauses keys of an action. One that is paused already stays so since when it was.
--
--   $1 action  text
--   $2 keys    text[], sorted
WITH limited AS (
    -- Fetches look at the keys of actions that have a row.
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

-- name: resume_actions
--
-- Ends the pauses of actions.
--
--   $1 actions  text[]
UPDATE stint.limits
SET paused_at = NULL
WHERE limits.action = ANY ($1::text[]) AND limits.paused_at IS NOT NULL

-- name: resume_keys
--
-- Ends the pauses of keys of an action.
--
--   $1 action  text
--   $2 keys    text[]
UPDATE stint.limited_keys
SET paused_at = NULL
WHERE limited_keys.action = $1::text AND limited_keys.limit_key = ANY ($2::text[])
  AND limited_keys.paused_at IS NOT NULL

-- name: set_weights
--
-- Sets the weights of keys of an action.
--
--   $1 action   text
--   $2 keys     text[], sorted
--   $3 weights  integer[]
INSERT INTO stint.limited_keys (action, limit_key, weight)
SELECT $1::text, named.key, named.weight
FROM unnest($2::text[], $3::integer[]) AS named (key, weight)
ON CONFLICT (action, limit_key) DO UPDATE
SET weight = excluded.weight
