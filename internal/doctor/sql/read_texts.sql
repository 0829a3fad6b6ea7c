-- name: read_texts
--
-- Makes the server read and send texts in UTF-8, as the driver does, for as long as the connection
-- lives, whatever the role, the database or the URL says.
SELECT pg_catalog.set_config('client_encoding', 'UTF8', false),
       pg_catalog.set_config('standard_conforming_strings', 'on', false)
