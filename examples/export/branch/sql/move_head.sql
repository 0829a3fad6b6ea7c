UPDATE branches SET head = $2 WHERE name = $1
