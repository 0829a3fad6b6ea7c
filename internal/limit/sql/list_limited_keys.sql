-- name: list_limited_keys
--
-- Returns the first $2 keys of actions that are paused or have a weight.
--
--   $1 actions  text[]: of these only; null: of all
--   $2 keys     integer
SELECT limited_keys.action, limited_keys.limit_key, limited_keys.paused_at, limited_keys.weight
FROM stint.limited_keys
WHERE limited_keys.action > '' AND ($1::text[] IS NULL OR limited_keys.action = ANY ($1::text[]))
ORDER BY limited_keys.action, limited_keys.limit_key
LIMIT $2::integer
