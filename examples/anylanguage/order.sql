-- The order and the task that sends its receipt are one commit.
BEGIN;
INSERT INTO orders (number, item) VALUES (7, 'tea');
SELECT stint.add_task('send-receipt', 'tea', id => 'receipt/7',
    not_before => now() + interval '10 minutes', deadline => now() + interval '1 day');
COMMIT;
