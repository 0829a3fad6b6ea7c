UPDATE stint.finished SET finished_at = statement_timestamp() - interval '100 days';
UPDATE stint.tasks SET inserted_at = statement_timestamp() - interval '100 days'
