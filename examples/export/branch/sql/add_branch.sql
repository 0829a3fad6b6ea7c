INSERT INTO branches (name, prefixes) VALUES ($1, $2)
ON CONFLICT DO NOTHING
