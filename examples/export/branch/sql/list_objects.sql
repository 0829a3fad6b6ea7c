SELECT path, id, encode(sha256(content), 'hex')
FROM objects
WHERE branch = $1 AND added <= $2 AND (removed IS NULL OR removed > $2)
