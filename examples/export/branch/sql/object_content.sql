SELECT content FROM objects WHERE id = $1
