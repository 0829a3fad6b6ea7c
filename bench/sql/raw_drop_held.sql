-- Drops the rows of keys whose tasks have finished.
DELETE FROM raw_held
WHERE NOT EXISTS (SELECT FROM raw_leased WHERE raw_leased.claim = raw_held.claim)
