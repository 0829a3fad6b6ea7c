INSERT INTO results (computation, performance, value) VALUES ($1, $2, $3)
