-- part: bucket_ahead
--
-- How far in the future {bucket}, of a key of an action that counts costs, was changed last:
-- {each} is how many seconds a token takes. It was changed at seen_at; without one it is as it was
-- inserted, when a token was taken out of a full bucket.
coalesce({bucket}.seen_at, {bucket}.full_at - ({each}) * interval '1 s') - clock_timestamp()
