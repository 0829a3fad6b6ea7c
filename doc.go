// Package stint keeps tasks in PostgreSQL, owned by token.
package stint
