-- name: mark_demo_schema
--
-- By this text stint demo knows a schema that it may drop. It is written in the transaction that
-- creates the schema.
COMMENT ON SCHEMA stint_demo IS 'made by: stint demo'
