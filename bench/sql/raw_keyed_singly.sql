-- Makes all tasks ready, each in the queue of its key, and gives the keys turns.
WITH turn AS (
    INSERT INTO raw_turn (pass, limit_key) SELECT DISTINCT 0, limit_key FROM raw_job
)
INSERT INTO raw_ready (limit_key, lo, hi) SELECT limit_key, key, key FROM raw_job
