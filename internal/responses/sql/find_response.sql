-- name: find_response
--
-- Returns the response that is kept of call $1.
--
--   $1 call  uuid
SELECT calls.response FROM stint.calls WHERE calls.call = $1::pg_catalog.uuid
