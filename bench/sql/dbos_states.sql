-- How many workflows DBOS has in a state. It keeps those that have ended.
SELECT count(*) FROM dbos.workflow_status WHERE status = $1
