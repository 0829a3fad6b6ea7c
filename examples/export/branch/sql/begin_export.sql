INSERT INTO exports (branch, number, requested, request, commit)
SELECT branch, $2, $3, number, commit
FROM requests
WHERE branch = $1
ORDER BY number DESC
LIMIT 1
RETURNING commit
