-- The service's own table. A real service has it in its own migrations.
CREATE TABLE IF NOT EXISTS orders (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item     text NOT NULL,
    quantity integer NOT NULL,
    receipt  text -- null until the order is charged
)
