-- name: receipts_table
--
-- Makes the table of a user, in which one row goes with the end of a task.
CREATE TABLE public.receipts (id text, token uuid)
