VACUUM FULL {table}
