-- Deletes the statistics of the columns of schema $1.
DELETE FROM pg_statistic
USING pg_class
WHERE pg_class.oid = starelid AND relnamespace = $1::text::regnamespace
