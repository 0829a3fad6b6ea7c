-- name: receipts
--
-- Returns the receipts of a round.
SELECT receipts.id, receipts.token::text FROM public.receipts WHERE starts_with(receipts.id, $1)
