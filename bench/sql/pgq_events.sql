-- What is in a batch.
SELECT ev_data FROM pgq.get_batch_events($1)
