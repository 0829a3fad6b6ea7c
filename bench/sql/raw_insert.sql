-- One row a commit.
INSERT INTO raw_task (id, body) VALUES ($1, $2)
