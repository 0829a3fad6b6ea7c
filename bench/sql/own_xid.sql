-- Gives the transaction a number, as its first change would: from here on nothing that is deleted
-- can be cleared away until it ends.
SELECT pg_current_xact_id()::text
