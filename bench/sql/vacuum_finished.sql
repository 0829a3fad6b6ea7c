-- What autovacuum does when a twentieth of the finished tasks has been pruned.
VACUUM stint.tasks, stint.finished
