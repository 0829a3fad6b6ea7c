-- Empties the oldest table and writes to it from now on, if it is time for that.
SELECT pgq.maint_rotate_tables_step1('bench')
