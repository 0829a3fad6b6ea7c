-- Takes the indexes of the definitions away, for as long as many are written.
ALTER TABLE stint.tasks DROP CONSTRAINT tasks_pkey, DROP CONSTRAINT tasks_id_key
