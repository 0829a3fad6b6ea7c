-- part: dependencies
--
-- How many edges lead into the task {key}, counted up to 100,000, so that a look at it does not
-- take long. An edge stays as long as the task has not ended, even if its predecessor has left the
-- store.
(SELECT count(*)
 FROM (SELECT FROM stint.edges WHERE edges.run = {key} LIMIT 100000) AS edge) AS dependencies
