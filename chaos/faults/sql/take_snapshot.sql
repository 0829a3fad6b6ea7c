SELECT count(*) FROM pg_class
