UPDATE exports SET aborted = $3 WHERE branch = $1 AND number = $2
