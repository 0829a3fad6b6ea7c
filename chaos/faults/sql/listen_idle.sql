-- A listener in an open transaction reads no notifications, and the queue keeps them for it.
LISTEN {schema};
BEGIN;
SELECT 1
