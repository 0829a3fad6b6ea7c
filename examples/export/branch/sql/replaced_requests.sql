SELECT exports.number
FROM exports
JOIN requests USING (branch)
WHERE branch = $1 AND requests.number BETWEEN exports.requested + 1 AND exports.request
  AND NOT requests.joined
