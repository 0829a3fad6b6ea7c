-- Ends a batch, if it is time for that.
SELECT pgq.ticker()
