-- part: bucket_ahead
--
-- How far in the future it was that {bucket}, of a key of an action that counts costs, was seen to
-- be full: by so much the clock was ahead, and what is owed since comes too late.
coalesce({bucket}.seen_at, {bucket}.full_at) - clock_timestamp()
