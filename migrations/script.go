package migrations

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// SQL returns the statements that bring a schema from one version to another, for services that
// apply migrations with a tool. From 0, which is an empty database, they create the schema. They
// also note the version, as [MigrateSchema] does, which then has nothing to do.
//
// The text is plain SQL, each statement with a semicolon at the end of a line. It begins and ends
// no transaction, defines no functions, and leaves the settings as they were; run it in one
// transaction, as most tools do anyway. It does not check what MigrateSchema checks: the database
// must be in UTF-8, and the schema at version from.
//
// Both versions are between 0 and [Version]. If to is less than from, the statements go back, which
// drops everything that the later versions added, with the tasks in it.
func SQL(schema string, from, to int32) (string, error) {
	quoted, err := quote(schema)
	if err != nil {
		return "", fmt.Errorf("migration: %w", err)
	}
	newest := Version()
	if min(from, to) < 0 || max(from, to) > newest {
		return "", fmt.Errorf("migration from version %d to %d: this release knows 0 to %d",
			from, to, newest)
	}
	if from == to {
		return "", fmt.Errorf("migration from version %d to %d: there is nothing to do", from, to)
	}
	migrator, err := load(context.Background(), nil, quoted)
	if err != nil {
		return "", fmt.Errorf("migration: %w", err)
	}
	script := &strings.Builder{}
	fmt.Fprintf(script, "-- Tables of Stint, from version %d to %d. Run this in one transaction, "+
		"in a\n-- database in UTF-8.\n", from, to)
	if from > 0 {
		script.WriteString("-- If processes work meanwhile, set lock_timeout ahead of it, to " +
			"'1200ms' say, and run it\n-- again if that passes: whoever asks for a table that " +
			"this waits for waits behind it.\n")
	}
	script.WriteString("\n")
	names := []string{"keep_path", "pin_path", "lock_schema"}
	if from == 0 && to > 0 {
		names = append(names, "create_schema", "create_version")
	}
	for _, name := range names {
		script.WriteString(bare(name, quoted))
	}
	for version := from; version != to; {
		next, text := version+1, ""
		if version < to {
			text = migrator.Migrations[version].UpSQL
		} else {
			next, text = version-1, migrator.Migrations[version-1].DownSQL
		}
		fmt.Fprintf(script, "\n%s\n\n", text)
		version = next
	}
	note := strings.Replace(bare("set_version", quoted), "$1::integer", strconv.Itoa(int(to)), 1)
	script.WriteString(note + bare("restore_path", quoted))
	return script.String(), nil
}

// bare returns one of the statements in this directory without its comments, which are about the
// migrator.
func bare(name, quoted string) string {
	lines := strings.Split(statement(name, quoted), "\n")
	for len(lines) > 0 && strings.HasPrefix(lines[0], "--") {
		lines = lines[1:]
	}
	return strings.TrimSpace(strings.Join(lines, "\n")) + ";\n"
}
