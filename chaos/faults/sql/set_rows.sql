-- Makes the tables and indexes of schema $1 have $2 rows, as far as the planner knows.
UPDATE pg_class SET reltuples = $2::real, relpages = CASE WHEN $2::real = 0 THEN 0 ELSE 1000 END
WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'i')
