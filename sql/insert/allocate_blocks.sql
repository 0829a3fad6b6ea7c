-- name: allocate_blocks
--
-- Returns the first keys of $1 new blocks of 1,024 keys each. One value of the sequence buys a
-- whole block, so that the tasks of an insert get consecutive keys without a lock. What is left of
-- the last block is never used: bigint has blocks enough.
--
--   $1 blocks  integer
SELECT nextval('stint.blocks') << 10 FROM generate_series(1, $1::integer)
