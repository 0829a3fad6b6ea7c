// Package orm holds tested examples of stintsql with libraries above database/sql: GORM, bun, ent
// and sqlx. It is a module of its own, so that nobody who uses Stint has to list these libraries.
//
// In each example a payment and the task that sends its receipt are committed together or not at
// all.
package orm
