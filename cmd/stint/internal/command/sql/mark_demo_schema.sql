-- name: mark_demo_schema
--
-- Marks the schema as one that stint demo may drop: stint demo knows it by this text. It is written
-- in the transaction that creates the schema.
COMMENT ON SCHEMA stint_demo IS 'made by: stint demo'
