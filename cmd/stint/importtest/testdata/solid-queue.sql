-- The tables of Solid Queue 1.5 that jobs are in, with fewer indexes. After queue_schema.rb below
-- lib/generators in https://github.com/rails/solid_queue, Copyright (c) 37signals, LLC, MIT
-- License.
--
-- Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
-- associated documentation files (the "Software"), to deal in the Software without restriction,
-- including without limitation the rights to use, copy, modify, merge, publish, distribute,
-- sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
-- furnished to do so, subject to the following conditions:
--
-- The above copyright notice and this permission notice shall be included in all copies or
-- substantial portions of the Software.
--
-- THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
-- NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
-- NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
-- DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
-- OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
CREATE TABLE solid_queue_jobs (
    id              bigserial    PRIMARY KEY,
    queue_name      varchar      NOT NULL,
    class_name      varchar      NOT NULL,
    arguments       text,
    priority        integer      NOT NULL DEFAULT 0,
    active_job_id   varchar,
    scheduled_at    timestamp(6),
    finished_at     timestamp(6),
    concurrency_key varchar,
    created_at      timestamp(6) NOT NULL,
    updated_at      timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_ready_executions (
    id         bigserial    PRIMARY KEY,
    job_id     bigint       NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    queue_name varchar      NOT NULL,
    priority   integer      NOT NULL DEFAULT 0,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_scheduled_executions (
    id           bigserial    PRIMARY KEY,
    job_id       bigint       NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    queue_name   varchar      NOT NULL,
    priority     integer      NOT NULL DEFAULT 0,
    scheduled_at timestamp(6) NOT NULL,
    created_at   timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_blocked_executions (
    id              bigserial    PRIMARY KEY,
    job_id          bigint       NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    queue_name      varchar      NOT NULL,
    priority        integer      NOT NULL DEFAULT 0,
    concurrency_key varchar      NOT NULL,
    expires_at      timestamp(6) NOT NULL,
    created_at      timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_claimed_executions (
    id         bigserial    PRIMARY KEY,
    job_id     bigint       NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    process_id bigint,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_failed_executions (
    id         bigserial    PRIMARY KEY,
    job_id     bigint       NOT NULL UNIQUE REFERENCES solid_queue_jobs ON DELETE CASCADE,
    error      text,
    created_at timestamp(6) NOT NULL
);
CREATE TABLE solid_queue_pauses (
    id         bigserial    PRIMARY KEY,
    queue_name varchar      NOT NULL UNIQUE,
    created_at timestamp(6) NOT NULL
);
