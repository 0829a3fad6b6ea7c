UPDATE stint.scheduled SET not_before = statement_timestamp() - interval '1 day';
UPDATE stint.schedules SET next_at = date_trunc('day', statement_timestamp()) - interval '1 hour'
