UPDATE exports SET planned = $3 WHERE branch = $1 AND number = $2
