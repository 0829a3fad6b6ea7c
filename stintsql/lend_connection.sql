-- name: lend_connection
--
-- The argument puts a comment in the place of the query, so a server never executes it. It has a
-- parameter since libraries that prepare every query count its parameters.
SELECT $1::pg_catalog.text
