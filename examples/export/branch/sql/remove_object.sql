UPDATE objects SET removed = $3
WHERE branch = $1 AND path = $2 AND removed IS NULL
