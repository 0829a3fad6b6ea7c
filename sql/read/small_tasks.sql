-- name: small_tasks
--
-- Returns what get_tasks returns, but for values of more than $2 bytes: bodies, results and texts
-- that are longer are left out, and not read, since their length is beside the pointer to them. The
-- last column says how many bytes these have.
--
--   $1 ids   text[]
--   $2 most  integer
SELECT
       -- include task_columns: body=CASE WHEN long.body IS NULL THEN task.body END;
       --   status=CASE WHEN long.status IS NULL THEN task.status END;
       --   result=CASE WHEN long.result IS NULL THEN task.result END
       , task.key,
       -- include dependencies: key=task.key
       ,
       coalesce((SELECT blocked.missing
                 FROM stint.blocked
                 WHERE blocked.key = task.key), 0) AS missing,
       coalesce(long.body, 0)::bigint + coalesce(long.result, 0) + coalesce(long.status, 0)
FROM unnest($1::text[]) AS named (id)
CROSS JOIN LATERAL (
    SELECT * FROM stint.task_states WHERE task_states.id = named.id OFFSET 0
) AS task
CROSS JOIN LATERAL (
    SELECT nullif(greatest(octet_length(task.body), $2::integer), $2::integer) AS body,
           nullif(greatest(octet_length(task.result), $2::integer), $2::integer) AS result,
           nullif(greatest(octet_length(task.status), $2::integer), $2::integer) AS status
) AS long
