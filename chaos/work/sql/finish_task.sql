-- name: finish_task
--
-- Completes a task in the transaction at hand.
--
--   $1 id      text
--   $2 token   uuid
--   $3 result  bytea
--   $4 spent   bigint
SELECT stint.finish_task($1::text, $2::uuid, status => 'in SQL', result_bytes => $3::bytea,
                         spent => $4::bigint)
