ALTER TABLE {table} ADD COLUMN chaos integer
