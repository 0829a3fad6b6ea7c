package migrations

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Functions returns the statements that make the SQL function add_task in a schema, or bring it up
// to date: the file functions.sql, for a schema of any name. The function inserts a task in the
// caller's transaction, from any language. Nothing in Stint calls it, and [Migrate] does not make
// it. docs/guides/sql.md says who may call it.
//
// Run the text in one transaction, after [MigrateSchema], with an account that may migrate:
//
//	_, err = conn.Exec(ctx, text)
//
// It may be run any number of times, also by several processes at once. If there is the role that
// roles.sql makes for those who only call the function, which is called like the schema with
// "_enqueuer" behind it, the text lets that role call it.
func Functions(schema string) (string, error) {
	// tag quotes the body of the function. The name is in that body, so it may not hold the tag.
	const tag = "$add_task$"
	quoted, err := quote(schema)
	if err == nil && strings.Contains(schema, tag) {
		err = fmt.Errorf("schema name %q: must not contain %s", schema, tag)
	}
	if err != nil {
		return "", fmt.Errorf("functions: %w", err)
	}
	text, err := statements.ReadFile("functions.sql")
	if err != nil {
		return "", fmt.Errorf("functions: %w", err)
	}
	role := schema + "_enqueuer"
	literal := func(text string) string { return strings.ReplaceAll(text, "'", "''") }
	return strings.NewReplacer(
		"'stint.", "'"+literal(quoted)+".",
		"'stint'", "'"+literal(schema)+"'",
		"'stint_enqueuer'", "'"+literal(role)+"'",
		"stint_enqueuer", pgx.Identifier{role}.Sanitize(),
		"stint.", quoted+".",
	).Replace(string(text)), nil
}
