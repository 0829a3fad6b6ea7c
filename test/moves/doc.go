// Package moves has tests that move and copy databases of Stint by the means of PostgreSQL.
package moves
