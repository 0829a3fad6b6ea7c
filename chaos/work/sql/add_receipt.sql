-- name: add_receipt
--
-- Notes the end of a task in a table of the caller.
--
--   $1 id     text
--   $2 token  uuid
INSERT INTO public.receipts (id, token) VALUES ($1::text, $2::uuid)
