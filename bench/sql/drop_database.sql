-- With force, since a library may have left a connection behind.
DROP DATABASE IF EXISTS %s WITH (FORCE)
