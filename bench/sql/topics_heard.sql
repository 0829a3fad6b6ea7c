-- How many topics stores want to hear of.
SELECT coalesce(sum(cardinality(topics)), 0)::integer FROM stint.sessions
