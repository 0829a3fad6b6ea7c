SELECT export.number
FROM exports AS export
JOIN exports AS before USING (branch)
WHERE branch = $1 AND before.number = export.number - 1
  AND before.request >= export.request
