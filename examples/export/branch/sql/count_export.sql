UPDATE branches SET exports = exports + 1 WHERE name = $1
RETURNING exports
