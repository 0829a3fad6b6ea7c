-- name: inserted_lately
--
-- Reports whether task $1 was inserted in the last minute as one that is the same to a worker.
--
--   $1 id         text
--   $2 action     text
--   $3 body       bytea
--   $4 limit_key  text, '': none
SELECT EXISTS (
    SELECT
    FROM stint.tasks
    WHERE tasks.id = $1::text AND tasks.action = $2::text
      AND coalesce(tasks.body, '') = coalesce($3::bytea, '')
      AND coalesce(tasks.limit_key, '') = $4::text
      AND tasks.inserted_at > statement_timestamp() - '1 minute'::interval
)
