-- A transaction with a number of its own, which nobody ends.
BEGIN;
SELECT pg_current_xact_id();
PREPARE TRANSACTION 'chaos'
