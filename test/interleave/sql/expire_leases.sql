UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 day'
