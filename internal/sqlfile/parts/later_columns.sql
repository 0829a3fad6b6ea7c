-- part: later_columns
--
-- The last columns of task_columns, which version 2 of the schema has added.
{of}.limit_key, {of}.headers::text, {of}.cost
