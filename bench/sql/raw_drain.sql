-- Takes rows away, $2 of them at most, from the place $1 in the table on, and tells where they
-- were. Whoever goes on from the last of them does not walk over what has been taken before, as any
-- queue must that gets new rows meanwhile.
DELETE FROM raw_task
 WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM raw_task WHERE ctid >= $1::tid LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING ctid::text, id, body
