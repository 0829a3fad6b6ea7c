-- The table of the jobs of Procrastinate 3.9, with the index that keeps a lock to one job. After
-- https://github.com/procrastinate-org/procrastinate/blob/main/procrastinate/sql/schema.sql,
-- Copyright (c) 2019-2021, PeopleDoc, Copyright (c) 2021-2023, Joachim Jablon, Eric Lemoine,
-- Copyright (c) 2024-, Joachim Jablon, Kai Schlamp, MIT License.
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
CREATE TYPE procrastinate_job_status AS ENUM ('todo', 'doing', 'succeeded', 'failed', 'cancelled',
    'aborting', 'aborted');
CREATE TABLE procrastinate_jobs (
    id              bigserial    PRIMARY KEY,
    queue_name      varchar(128) NOT NULL,
    task_name       varchar(128) NOT NULL,
    priority        integer      NOT NULL DEFAULT 0,
    lock            text,
    queueing_lock   text,
    args            jsonb        NOT NULL DEFAULT '{}',
    status          procrastinate_job_status NOT NULL DEFAULT 'todo',
    scheduled_at    timestamptz,
    attempts        integer      NOT NULL DEFAULT 0,
    abort_requested boolean      NOT NULL DEFAULT false,
    worker_id       bigint
);
CREATE UNIQUE INDEX procrastinate_jobs_lock_idx_v1 ON procrastinate_jobs (lock)
    WHERE status = 'doing';
