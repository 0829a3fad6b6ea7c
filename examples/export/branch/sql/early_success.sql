SELECT success.export
FROM performances AS success
JOIN performances AS object USING (branch, export)
WHERE branch = $1 AND success.action = 'success' AND success.place < object.place
  AND object.action IN ('copy', 'delete', 'success')
  AND starts_with(object.path, success.path || '/')
