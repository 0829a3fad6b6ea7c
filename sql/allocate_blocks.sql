-- name: allocate_blocks
--
-- The first keys of $1 new blocks of 1,024 keys each. One sequence value buys a whole block, so
-- that the tasks of an insert get consecutive keys without a lock; what is left of the last block
-- is never used, and bigint outlasts it.
--
--   $1 blocks  integer
SELECT nextval('stint.blocks') << 10 FROM generate_series(1, $1::integer)
