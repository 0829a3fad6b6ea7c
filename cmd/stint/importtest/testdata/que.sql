-- The table of the jobs of que 2.4 as its migrations 1 to 7 make it, without indexes, constraints
-- and triggers. After https://github.com/que-rb/que/tree/master/lib/que/migrations, Copyright (c)
-- 2013-2017 Chris Hanks, MIT License.
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
CREATE TABLE que_jobs (
    priority             smallint    NOT NULL DEFAULT 100,
    run_at               timestamptz NOT NULL DEFAULT now(),
    id                   bigserial   PRIMARY KEY,
    job_class            text        NOT NULL,
    error_count          integer     NOT NULL DEFAULT 0,
    last_error_message   text,
    queue                text        NOT NULL DEFAULT 'default',
    last_error_backtrace text,
    finished_at          timestamptz,
    expired_at           timestamptz,
    args                 jsonb       NOT NULL DEFAULT '[]',
    data                 jsonb       NOT NULL DEFAULT '{}',
    job_schema_version   integer     NOT NULL,
    kwargs               jsonb       NOT NULL DEFAULT '{}'
);
