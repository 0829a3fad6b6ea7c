-- The table of the jobs of pg-boss 12.27 (version 37 of its schema), with the partition for all
-- queues, without indexes and without what refers to the table queue. After
-- https://github.com/timgit/pg-boss/blob/master/src/plans.ts, Copyright (c) 2016 Tim Jones, The MIT
-- License (MIT).
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
CREATE SCHEMA pgboss;
CREATE TYPE pgboss.job_state AS ENUM ('created', 'retry', 'active', 'completed', 'cancelled',
    'failed');
CREATE TABLE pgboss.job (
    id                   uuid NOT NULL DEFAULT gen_random_uuid(),
    name                 text NOT NULL,
    priority             integer NOT NULL DEFAULT 0,
    data                 jsonb,
    state                pgboss.job_state NOT NULL DEFAULT 'created',
    retry_limit          integer NOT NULL DEFAULT 2,
    retry_count          integer NOT NULL DEFAULT 0,
    retry_delay          integer NOT NULL DEFAULT 0,
    retry_backoff        boolean NOT NULL DEFAULT false,
    retry_delay_max      integer,
    expire_seconds       integer NOT NULL DEFAULT 900,
    deletion_seconds     integer NOT NULL DEFAULT 604800,
    singleton_key        text,
    singleton_on         timestamp,
    group_id             text,
    group_tier           text,
    start_after          timestamptz NOT NULL DEFAULT now(),
    created_on           timestamptz NOT NULL DEFAULT now(),
    started_on           timestamptz,
    completed_on         timestamptz,
    keep_until           timestamptz NOT NULL DEFAULT now() + interval '1209600',
    output               jsonb,
    dead_letter          text,
    policy               text,
    heartbeat_on         timestamptz,
    heartbeat_seconds    integer,
    blocked              boolean NOT NULL DEFAULT false,
    blocking             boolean NOT NULL DEFAULT false,
    pending_dependencies integer NOT NULL DEFAULT 0,
    source_name          text,
    source_id            uuid,
    source_created_on    timestamptz,
    source_retry_count   integer
) PARTITION BY LIST (name);
ALTER TABLE pgboss.job ADD PRIMARY KEY (name, id);
CREATE TABLE pgboss.job_common PARTITION OF pgboss.job DEFAULT;
