-- name: set_row_security
--
-- With off, a statement fails to which a policy of row security applies, which would hide jobs.
--
--   $1 setting  text: on or off
SELECT set_config('row_security', $1::text, true)
