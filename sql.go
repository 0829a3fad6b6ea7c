package stint

import (
	"embed"
	"path"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// statements holds the texts of sql/, by file name without its ending.
type statements map[string]string

// writePattern finds what a read-only transaction may not do.
var writePattern = regexp.MustCompile(`\b(INSERT|UPDATE|DELETE|SHARE|nextval)\b`)

// writing are the names of the statements that write.
func (s statements) writing() map[string]bool {
	names := make(map[string]bool, len(s))
	for name, text := range s {
		names[name] = writePattern.MatchString(text)
	}
	return names
}

// These find the functions and types that a statement names without a schema. A function is a name
// in lower case before a parenthesis. A name that belongs to the grammar is none; nor is unnest of
// several arrays, for which the grammar takes PostgreSQL's own.
var (
	callPattern   = regexp.MustCompile(`[\w.]+\(`)
	unnestPattern = regexp.MustCompile(`\bunnest\(([^(),]+)\)`)
	typePattern   = regexp.MustCompile(`::(text|bytea|timestamptz|regclass|oid)\b`)
)

// inFull puts the schema before the functions and types of a statement. The driver prepares
// statements before the transaction that sets the path, and so under the caller's path: somebody's
// function of the same name, whose arguments fit better, could make that fail, and somebody's type
// could check the parameters. inFull does this for all statements, so that none can forget it, and
// each stays easy to read.
func inFull(text string) string {
	text = callPattern.ReplaceAllStringFunc(text, func(call string) string {
		switch name := strings.TrimSuffix(call, "("); {
		case strings.ContainsAny(name, ".ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
			return call
		case name == "coalesce", name == "greatest", name == "least", name == "unnest":
			return call
		}
		return "pg_catalog." + call
	})
	text = unnestPattern.ReplaceAllString(text, "pg_catalog.unnest($1)")
	return typePattern.ReplaceAllString(text, "::pg_catalog.$1")
}

// fewQueues is of how many queues own_few hands out at most, manyQueues the condition in own_tasks
// that there are more.
const (
	fewQueues  = 2
	manyQueues = "cardinality($4::text[]) > 2"
)

// loadStatements reads the statements for a schema.
func loadStatements(schema string) (statements, error) {
	files, err := statementFiles.ReadDir("sql")
	if err != nil {
		return nil, err
	}
	qualifier := pgx.Identifier{schema}.Sanitize() + "."
	qualify := strings.NewReplacer(
		"LISTEN stint", "LISTEN "+strings.TrimSuffix(qualifier, "."),
		"'"+Spontaneous+"'", "'"+Spontaneous+"'", // an action, which gets no schema
		"'stint.", "'"+strings.ReplaceAll(qualifier, "'", "''"),
		"stint.", qualifier,
	)
	loaded := make(statements, len(files))
	for _, file := range files {
		text, err := statementFiles.ReadFile(path.Join("sql", file.Name()))
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file.Name(), ".sql")
		loaded[name] = sqlfile.Statement(string(text))
	}
	loaded["own_few"] = strings.ReplaceAll(loaded["own_tasks"], manyQueues, "false")
	for name, text := range loaded {
		loaded[name] = qualify.Replace(inFull(text))
	}
	return loaded, nil
}
