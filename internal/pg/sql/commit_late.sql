-- name: commit_late
--
-- Gives the transaction the durability back that commit_early took from it. It goes with
-- allocate_blocks: a store remembers tasks by their keys, even over a crash of the server, so no
-- key may ever be that of another task.
VALUES (set_config('synchronous_commit', NULL, true))
