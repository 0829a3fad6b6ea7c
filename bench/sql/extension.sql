-- Whether an extension is there to be created.
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)
