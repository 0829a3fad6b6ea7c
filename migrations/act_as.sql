-- name: act_as
--
-- Makes the session act as another one does. RESET ALL leaves both settings alone.
--
--   $1 session_user  text
--   $2 role          text, none if there was no SET ROLE
SELECT pg_catalog.set_config('session_authorization', $1::pg_catalog.text, false),
       pg_catalog.set_config('role', $2::pg_catalog.text, false)
