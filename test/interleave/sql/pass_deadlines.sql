UPDATE stint.tasks SET deadline = '2020-01-01Z' WHERE deadline IS NOT NULL;
UPDATE stint.deadlines SET deadline = '2020-01-01Z';
UPDATE stint.ready SET deadline = '2020-01-01Z' WHERE deadline IS NOT NULL
