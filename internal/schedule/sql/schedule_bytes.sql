-- name: schedule_bytes
--
-- Returns how many bytes the definitions of schedules, and the IDs of their last tasks, have
-- together. No definition is read for that: its length is beside the pointer to it.
--
--   $1 names  text[]
--   $2 all    boolean, whatever their names
SELECT coalesce(sum(
           octet_length(found.definition)::bigint
               + octet_length(array_to_string(found.last_ids, ','))
       ), 0)::bigint
FROM (
    SELECT schedules.definition, schedules.last_ids
    FROM stint.schedules
    WHERE schedules.name = ANY ($1::text[])
    UNION ALL
    SELECT schedules.definition, schedules.last_ids
    FROM stint.schedules
    WHERE $2::boolean AND schedules.name > '' -- along the index, and not at all unless asked for
) AS found
