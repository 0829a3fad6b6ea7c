-- part: lost_again
--
-- Whether the task of a row of {leased}, whose lease has expired, was then lost {losses} times in a
-- row; null if not. A try that was returned in between leaves a gap in the numbers of the tries,
-- one that was refunded leaves none. 0 stands for any number of losses. Tasks of actions that begin
-- with "stint." are of clusters of shards: they kill nobody, and others wait for them for ever.
SELECT true
FROM stint.losses
WHERE losses.key = {leased}.lo AND losses.tries = {leased}.tries - 1
  AND {losses}::integer > 0 AND losses.losses >= {losses}::integer - 1
  AND (SELECT starts_with(lost.action, 'stint' || '.')
       FROM stint.tasks AS lost
       WHERE lost.key = {leased}.lo) IS NOT TRUE
