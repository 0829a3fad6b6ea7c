-- What was returned. A row is written in the transaction that returns the task, so it is there
-- exactly if the return was accepted. Nothing here keeps a computation from having two of them:
-- that there is one shall come of the tokens alone.
CREATE TABLE results (
    place       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    computation text NOT NULL,
    performance text NOT NULL,
    value       text NOT NULL
);
