-- The table and the index that gue's documentation asks its users to create.
CREATE TABLE gue_jobs (
    job_id      text        NOT NULL PRIMARY KEY,
    priority    smallint    NOT NULL,
    run_at      timestamptz NOT NULL,
    job_type    text        NOT NULL,
    args        bytea       NOT NULL,
    error_count integer     NOT NULL DEFAULT 0,
    last_error  text,
    queue       text        NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);
CREATE INDEX idx_gue_jobs_selector ON gue_jobs (queue, run_at, priority)
