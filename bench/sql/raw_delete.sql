-- Takes the row that a notification was about.
DELETE FROM raw_task WHERE id = $1 RETURNING body
