-- Returns the number of the transaction, and what became of another one: "committed", "aborted" or
-- "in progress".
--
--   $1 before  text: the number of the other one, empty if there is none
SELECT pg_catalog.pg_current_xact_id()::text AS number,
       pg_catalog.pg_xact_status(
           CASE WHEN $1::text OPERATOR(pg_catalog.<>) '' THEN $1::text::pg_catalog.xid8 END
       ) AS before
