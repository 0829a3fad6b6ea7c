SELECT prefixes FROM branches WHERE name = $1
