WITH spans AS (
    -- An export lasts from the performance of its next-export to that of its last task.
    SELECT export, min(place) AS first, max(place) AS last
    FROM performances
    WHERE branch = $1 AND action <> 'manifest'
    GROUP BY export
), together AS (
    SELECT count(*) AS n
    FROM spans AS span
    JOIN spans AS other ON span.first BETWEEN other.first AND other.last
    GROUP BY span.export
)
SELECT branches.head, branches.requests, branches.exports,
       branches.requests - (SELECT count(*) FROM exports WHERE branch = $1),
       (SELECT coalesce(max(n), 0) FROM together),
       (SELECT count(*) FROM performances
        WHERE branch = $1 AND action IN ('copy', 'delete', 'success')),
       coalesce((SELECT commit FROM exports
                 WHERE branch = $1 AND number = branches.exports), 0),
       (SELECT count(*) FROM objects WHERE branch = $1 AND removed IS NULL)
FROM branches
WHERE name = $1
