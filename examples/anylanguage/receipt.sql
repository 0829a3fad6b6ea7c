-- The receipt and the end of its task are one commit.
\getenv id STINT_TASK_ID
\getenv token STINT_TASK_TOKEN
BEGIN;
INSERT INTO receipts (task) VALUES (:'id');
SELECT stint.finish_task(:'id', :'token', status => 'sent');
COMMIT;
