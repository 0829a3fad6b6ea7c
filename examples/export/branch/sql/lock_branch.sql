SELECT head FROM branches WHERE name = $1
FOR NO KEY UPDATE
