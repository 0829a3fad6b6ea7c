-- name: erase_tasks
--
-- Deletes what drop_definitions leaves of finished tasks. Their edges are settled, and go, too.
--
--   $1 keys  bigint[], sorted; the tasks must have been split off their spans
WITH outgoing AS (
    DELETE FROM stint.edges WHERE edges.after = ANY ($1::bigint[])
), incoming AS (
    DELETE FROM stint.edges WHERE edges.run = ANY ($1::bigint[])
), joined AS (
    DELETE FROM stint.joined WHERE joined.key = ANY ($1::bigint[])
)
DELETE FROM stint.finished WHERE finished.lo = ANY ($1::bigint[])
