-- Some events in one transaction.
SELECT count(pgq.insert_event('bench', 'bench', body)) FROM unnest($1::text[]) AS body
