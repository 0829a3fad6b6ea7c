-- Finishes what is leased under the claim $1 from the tasks $2 on.
WITH ended AS (
    DELETE FROM raw_leased WHERE lo = ANY ($2::bigint[]) AND claim = $1::bigint RETURNING lo, hi
)
INSERT INTO raw_finished (lo, hi, claim) SELECT lo, hi, $1::bigint FROM ended
