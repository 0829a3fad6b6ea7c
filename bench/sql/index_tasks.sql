-- Makes the indexes of the definitions anew.
ALTER TABLE stint.tasks ADD CONSTRAINT tasks_pkey PRIMARY KEY (key),
    ADD CONSTRAINT tasks_id_key UNIQUE (id)
