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
