-- Tells the next turn when others see that, in a transaction of its own.
SELECT pgq.maint_rotate_tables_step2()
