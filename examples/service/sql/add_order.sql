-- Adds an order ($1 item, $2 quantity) and returns its ID.
INSERT INTO orders (item, quantity) VALUES ($1, $2) RETURNING id
