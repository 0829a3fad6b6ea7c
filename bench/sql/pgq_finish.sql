-- The batch is done.
SELECT pgq.finish_batch($1)
