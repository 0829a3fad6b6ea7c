-- name: prefer_indexes
--
-- Goes ahead of raise_sequences, to the end of the transaction: the statistics of a table that was
-- filled a moment ago say that it is empty.
VALUES (set_config('enable_seqscan', 'off', true)),
       (set_config('enable_bitmapscan', 'off', true)),
       (set_config('enable_sort', 'off', true)),
       (set_config('jit', 'off', true))
