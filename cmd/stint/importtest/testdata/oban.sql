-- The table of Oban as its migrations 1 to 14 make it (version 2.23), without indexes. After
-- https://github.com/oban-bg/oban/tree/main/lib/oban/migrations/postgres, Copyright 2025 The Oban
-- Team, Apache License 2.0.
CREATE TYPE oban_job_state AS ENUM ('available', 'suspended', 'scheduled', 'executing',
    'retryable', 'completed', 'discarded', 'cancelled');
CREATE TABLE oban_jobs (
    id           bigserial      PRIMARY KEY,
    state        oban_job_state NOT NULL DEFAULT 'available',
    queue        text           NOT NULL DEFAULT 'default',
    worker       text           NOT NULL,
    args         jsonb          NOT NULL DEFAULT '{}',
    errors       jsonb[]        NOT NULL DEFAULT '{}',
    attempt      integer        NOT NULL DEFAULT 0,
    max_attempts integer        NOT NULL DEFAULT 20,
    inserted_at  timestamp      NOT NULL DEFAULT timezone('UTC', now()),
    scheduled_at timestamp      NOT NULL DEFAULT timezone('UTC', now()),
    attempted_at timestamp,
    completed_at timestamp,
    attempted_by text[],
    discarded_at timestamp,
    priority     integer        NOT NULL DEFAULT 0,
    tags         text[]         DEFAULT '{}',
    meta         jsonb          DEFAULT '{}',
    cancelled_at timestamp,
    CONSTRAINT attempt_range CHECK (attempt BETWEEN 0 AND max_attempts),
    CONSTRAINT positive_max_attempts CHECK (max_attempts > 0),
    CONSTRAINT non_negative_priority CHECK (priority >= 0),
    CONSTRAINT worker_length CHECK (char_length(worker) > 0 AND char_length(worker) < 128),
    CONSTRAINT queue_length CHECK (char_length(queue) > 0 AND char_length(queue) < 128)
);
