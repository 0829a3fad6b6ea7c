-- The table of the jobs of GoodJob 4.19, without indexes. After
-- https://github.com/bensheldon/good_job/blob/main/demo/db/schema.rb, Copyright 2020 Ben Sheldon.
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
CREATE TABLE good_jobs (
    id                  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    active_job_id       uuid,
    batch_callback_id   uuid,
    batch_id            uuid,
    concurrency_key     text,
    created_at          timestamp NOT NULL,
    cron_at             timestamp,
    cron_key            text,
    error               text,
    error_event         smallint,
    executions_count    integer,
    finished_at         timestamp,
    is_discrete         boolean,
    job_class           text,
    labels              text[],
    lock_type           smallint,
    locked_at           timestamp(6),
    locked_by_id        uuid,
    performed_at        timestamp,
    priority            integer,
    queue_name          text,
    retried_good_job_id uuid,
    scheduled_at        timestamp,
    serialized_params   jsonb,
    updated_at          timestamp NOT NULL
);
