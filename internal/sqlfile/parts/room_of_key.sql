-- part: room_of_key
--
-- How many more tasks of the key of next its limits let be fetched: per_key, key_burst and each
-- (how many seconds a token takes) of {limits}. It is null without such limits. A bucket is full at
-- full_at.
SELECT least({limits}.per_key - held.slots, floor(
           {limits}.key_burst - greatest(date_part('epoch', (
               SELECT key_rates.full_at
               FROM stint.key_rates
               WHERE key_rates.action = {limits}.action
                 AND key_rates.limit_key = next.limit_key
           ) - statement_timestamp()), 0) / {limits}.each + 0.000001
       ))::bigint AS tasks
FROM (
    -- include slots_held: action={limits}.action; key=next.limit_key; per_key={limits}.per_key
) AS held
OFFSET 0
