-- Gives the order with the ID $1 the receipt $2.
UPDATE orders SET receipt = $2 WHERE id = $1
