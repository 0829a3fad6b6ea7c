UPDATE branches SET requests = requests + 1 WHERE name = $1
RETURNING requests
