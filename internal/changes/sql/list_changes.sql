-- name: list_changes
--
-- Lists changes, the newest first: of the next ones, those of some actions.
--
--   $1 before_at  timestamptz: the page begins behind the change with this time and number
--   $2 before     bigint
--   $3 looked     integer: how many changes to look at
--   $4 actions    text[], null: all, also what is of no action
--
-- The last change that was looked at comes whatever its action: the page ends there.
SELECT looked.number, looked.changed_at, looked.items, looked.others, looked.verb, looked.author,
       looked.action, looked.reason, looked.detail, looked.names, looked.fits,
       looked.place = $3::integer AS last
FROM (
    SELECT changes.*,
           ($4::text[] IS NULL OR changes.action = ANY ($4::text[])) IS TRUE AS fits,
           row_number() OVER (ORDER BY changes.changed_at DESC, changes.number + 0 DESC) AS place
    FROM stint.changes
    WHERE changes.changed_at <= $1::timestamptz
      AND (changes.changed_at < $1::timestamptz OR changes.number + 0 < $2::bigint)
    ORDER BY changes.changed_at DESC, changes.number + 0 DESC
    LIMIT $3::integer
) AS looked
WHERE looked.fits OR looked.place = $3::integer
ORDER BY looked.changed_at DESC, looked.number DESC
