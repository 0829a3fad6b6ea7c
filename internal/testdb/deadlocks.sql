-- How many deadlocks the server has counted in the database.
SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()
