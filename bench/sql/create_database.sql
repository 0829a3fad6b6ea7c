-- Every contender begins with an empty database of the default encoding and collation.
CREATE DATABASE %s
