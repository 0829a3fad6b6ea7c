SELECT exports.number
FROM exports
LEFT JOIN performances ON performances.branch = exports.branch
  AND performances.export = exports.number
  AND performances.action NOT IN ('next-export', 'start-export')
WHERE exports.branch = $1
GROUP BY exports.number, exports.planned, exports.aborted
HAVING count(performances.place) + exports.aborted IS DISTINCT FROM exports.planned
