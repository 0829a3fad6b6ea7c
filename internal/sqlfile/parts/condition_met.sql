-- part: condition_met
--
-- Whether the condition of {edge} is met by a predecessor that ended for {cause} with {result}, a
-- text that is not null. A predecessor that has left the store (7) leaves a condition that
-- erase_tasks has found met (empty results), or that is not met.
CASE {cause}
    WHEN 0 /* completed */
    THEN {edge}.accepts & 1 <> 0 AND ({edge}.results IS NULL OR {result} = ANY ({edge}.results))
    WHEN 8 /* skipped */ THEN {edge}.accepts & 4 <> 0
    WHEN 5 /* replaced */ THEN false
    WHEN 7 /* deleted */ THEN coalesce({edge}.results = '{}', false)
    ELSE {edge}.accepts & 2 <> 0 -- aborted
END
