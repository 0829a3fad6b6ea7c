-- Returns the order with the ID $1; the receipt is empty until the order is charged.
SELECT id, item, quantity, coalesce(receipt, '') FROM orders WHERE id = $1
