-- name: set_jit
--
-- Goes ahead of all else in a transaction. A command, not set_config as the other settings: with
-- tiny costs PostgreSQL would compile that for longer than it takes to do what follows.
SET LOCAL jit = off
