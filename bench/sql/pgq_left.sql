-- How many events nobody has read yet.
SELECT pending_events FROM pgq.get_consumer_info('bench', 'bench')
