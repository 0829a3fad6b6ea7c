-- Writes the row of the origin anew, as a restored dump does: the database is a copy then.
UPDATE stint.origin SET environment = environment
