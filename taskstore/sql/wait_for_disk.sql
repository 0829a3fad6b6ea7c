-- name: wait_for_disk
--
-- Lets the transaction wait for the disk when it commits, even if others on this server do not. A
-- setting that waits for more stays.
VALUES (set_config(
    'synchronous_commit',
    CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on'
        ELSE current_setting('synchronous_commit')
    END,
    true))
