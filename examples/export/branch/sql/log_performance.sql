INSERT INTO performances (branch, export, action, path, actor)
VALUES ($1, $2, $3, $4, $5)
