SELECT current_setting('max_prepared_transactions')::integer
