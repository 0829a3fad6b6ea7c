-- part: verdict_of_condition
--
-- What the condition of {edge} decides of its dependent, as verdict of settling says it, where its
-- predecessor ended for {cause} with {result}.
CASE
    WHEN
        -- include condition_met: edge={edge}; cause={cause}; result={result}
    THEN {edge}.accepts & 8 >> 2
    WHEN {edge}.accepts & 8 <> 0 THEN 4
    ELSE 1
END::smallint
