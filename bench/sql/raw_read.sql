-- Everything, as far as it goes over the wire.
SELECT body FROM raw_task
