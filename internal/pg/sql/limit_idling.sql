-- name: limit_idling
--
-- Lets the server end a transaction of the store's own if the process does not go on with it for
-- five seconds, or for less if a setting says so. A process that runs goes on (pulse.go). One that
-- was stopped, or whose host is lost, shall not keep what it has locked for as long as its
-- connection seems to live.
SELECT set_config(
    'idle_in_transaction_session_timeout',
    CASE WHEN given.pause > '0'::interval AND given.pause < '5 s'::interval
         THEN current_setting('idle_in_transaction_session_timeout')
         ELSE '5s' END,
    true)
FROM (
    SELECT current_setting('idle_in_transaction_session_timeout')::interval
) AS given (pause)
