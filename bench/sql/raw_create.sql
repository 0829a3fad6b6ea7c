-- As little as a table of tasks can be: a key and a body.
CREATE TABLE raw_task (id text PRIMARY KEY, body bytea)
