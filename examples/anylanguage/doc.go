// Package anylanguage holds examples of inserting tasks by the SQL function add_task, from psql,
// from Python and from a trigger, and of ending them by finish_task, as docs/guides/sql.md shows
// them, and the tests that run them. Nothing is to be imported.
package anylanguage
