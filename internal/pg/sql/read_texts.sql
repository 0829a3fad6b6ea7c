-- name: read_texts
--
-- Makes the server read texts as the driver writes them, to the end of the transaction. It goes
-- ahead of everything else on a connection for which the role, the database, the URL or somebody's
-- SET says otherwise: there the server would take the UTF-8 of an ID for letters of another
-- encoding, and keep those.
VALUES (set_config('client_encoding', 'UTF8', true)),
       -- In a simple query the driver writes parameters out for nothing else.
       (set_config('standard_conforming_strings', 'on', true))
