package migrations

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Functions returns the statements that make the SQL functions add_task and finish_task in a
// schema, or bring them up to date: the files functions.sql and finish_task.sql, for a schema of
// any name. The one inserts a task in the caller's transaction, from any language, and the other
// ends an owned task there. Nothing in Stint calls them, and [Migrate] does not make them.
// docs/guides/sql.md says who may call them.
//
// Run the text in one transaction, after [MigrateSchema], with an account that may migrate:
//
//	_, err = conn.Exec(ctx, text)
//
// It may be run any number of times, also by several processes at once. If there is the role that
// roles.sql makes for those who only call the functions, which is called like the schema with
// "_enqueuer" behind it, the text lets that role call them.
func Functions(schema string) (string, error) {
	quoted, err := quote(schema)
	if err != nil {
		return "", fmt.Errorf("functions: %w", err)
	}
	role := schema + "_enqueuer"
	literal := func(text string) string { return strings.ReplaceAll(text, "'", "''") }
	replacer := strings.NewReplacer(
		"'stint.", "'"+literal(quoted)+".",
		"'stint'", "'"+literal(schema)+"'",
		"'stint_enqueuer'", "'"+literal(role)+"'",
		"stint_enqueuer", pgx.Identifier{role}.Sanitize(),
		"stint.", quoted+".",
	)
	var script strings.Builder
	// The tags quote the bodies of the functions. The name is in these, so it may not hold a tag.
	for _, tag := range []string{"$add_task$", "$finish_task$"} {
		if strings.Contains(schema, tag) {
			return "", fmt.Errorf("functions: schema name %q: must not contain %s", schema, tag)
		}
	}
	for _, file := range []string{"functions.sql", "finish_task.sql"} {
		text, err := statements.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("functions: %w", err)
		}
		script.WriteString(replacer.Replace(string(text)))
	}
	return script.String(), nil
}
