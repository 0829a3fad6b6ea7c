-- name: relax_commit
--
-- Lets the transaction commit without waiting for the disk: for notifications, which are only hints,
-- and whose commits, of all databases of the server, follow one another.
SELECT set_config('synchronous_commit', 'off', true)
