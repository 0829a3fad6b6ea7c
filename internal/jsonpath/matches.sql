-- Says of documents $1 and paths $2, pair by pair, whether PostgreSQL says that they match: by
-- jsonb_path_match where the path is a condition ($3), else by jsonb_path_exists. Neither raises an
-- error.
SELECT CASE WHEN given.condition
            THEN coalesce(jsonb_path_match(given.document::jsonb, given.path::jsonpath, '{}', true),
                          false)
            ELSE jsonb_path_exists(given.document::jsonb, given.path::jsonpath, '{}', true)
       END
FROM unnest($1::text[], $2::text[], $3::boolean[]) WITH ORDINALITY
     AS given (document, path, condition, place)
ORDER BY given.place
