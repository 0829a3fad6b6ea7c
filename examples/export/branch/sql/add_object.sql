INSERT INTO objects (branch, path, added, content)
VALUES ($1, $2, $3, $4)
