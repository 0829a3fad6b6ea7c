-- The tables of the application. All is run in one transaction, and one process at a time.
SELECT pg_advisory_xact_lock(8102771340046);

-- The row of a branch is its lock: it is locked by what makes a commit, by what asks for an export
-- and by what begins one.
CREATE TABLE IF NOT EXISTS branches (
    name     text PRIMARY KEY,
    head     bigint NOT NULL DEFAULT 0, -- the newest commit
    requests bigint NOT NULL DEFAULT 0, -- how often an export was asked for
    exports  bigint NOT NULL DEFAULT 0, -- how many have begun
    prefixes text[] NOT NULL            -- those that get a _SUCCESS object
);

-- An object belongs to the commits from the one that added it to the one before it was removed.
CREATE TABLE IF NOT EXISTS objects (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    branch  text NOT NULL REFERENCES branches,
    path    text NOT NULL,
    added   bigint NOT NULL,
    removed bigint,
    content bytea NOT NULL,
    UNIQUE (branch, path, added)
);

-- The rest is there to check what was promised. Its rows are written in the transactions of which
-- they tell.
CREATE TABLE IF NOT EXISTS requests (
    branch text NOT NULL REFERENCES branches,
    number bigint NOT NULL,
    commit bigint NOT NULL,
    joined boolean NOT NULL, -- left to the owner of next-export, who had not begun
    PRIMARY KEY (branch, number)
);

CREATE TABLE IF NOT EXISTS exports (
    branch    text NOT NULL REFERENCES branches,
    number    bigint NOT NULL,
    requested bigint NOT NULL, -- the request in the body of next-export
    request   bigint NOT NULL, -- the one that was exported: this, or one that has joined it
    commit    bigint NOT NULL,
    planned   bigint,          -- how many tasks start-export made
    aborted   bigint,          -- how many of them failed, as the manifest was told
    PRIMARY KEY (branch, number)
);

-- Every performance of a task that counted. place is from a sequence, so it tells which of two
-- transactions was at this point first, also where clocks would not.
CREATE TABLE IF NOT EXISTS performances (
    place  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    branch text NOT NULL REFERENCES branches,
    export bigint NOT NULL,
    action text NOT NULL,
    path   text NOT NULL, -- of the object or prefix
    actor  text NOT NULL,
    UNIQUE (branch, export, action, path)
);
