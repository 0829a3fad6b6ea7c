-- name: commit_early
--
-- Lets the transaction commit without waiting for the disk. A crash of the server loses the last
-- such transactions, in the order of their commits: what is left is a state that there was.
VALUES (set_config('synchronous_commit', 'off', true))
