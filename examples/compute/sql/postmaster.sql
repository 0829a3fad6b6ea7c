-- The number of the server's first process, and where its data are.
SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int,
       current_setting('data_directory')
