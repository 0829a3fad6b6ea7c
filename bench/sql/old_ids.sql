-- The IDs of $1 tasks of all ages.
SELECT (SELECT tasks.id
          FROM stint.tasks
         WHERE tasks.key >= range.first + (range.last - range.first) * n / $1::integer
         ORDER BY tasks.key
         LIMIT 1)
  FROM (SELECT min(key) AS first, max(key) AS last FROM stint.tasks) AS range,
       generate_series(0, $1::integer - 1) AS number (n)
