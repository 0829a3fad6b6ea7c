INSERT INTO requests (branch, number, commit, joined)
VALUES ($1, $2, $3, $4)
