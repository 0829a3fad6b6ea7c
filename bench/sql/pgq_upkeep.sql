-- What the queue wants to have called.
SELECT func_name, func_arg FROM pgq.maint_operations()
