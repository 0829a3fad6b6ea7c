-- The queue with its reader, a tick every 50 ms while there is something to read, and other tables
-- every five minutes.
CREATE EXTENSION pgq;
SELECT pgq.create_queue('bench');
SELECT pgq.register_consumer('bench', 'bench');
SELECT pgq.set_queue_config('bench', 'ticker_max_lag', '50 milliseconds');
SELECT pgq.set_queue_config('bench', 'rotation_period', '5 minutes');
