-- The next batch; NULL if there is none.
SELECT pgq.next_batch('bench', 'bench')
