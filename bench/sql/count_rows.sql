-- What somebody asks who looks at a table.
SELECT count(*) FROM %s
