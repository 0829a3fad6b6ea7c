SELECT computation, performance, value FROM results ORDER BY place
