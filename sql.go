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
		"'"+External+"'", "'"+External+"'",
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
		loaded[name] = qualify.Replace(sqlfile.InFull(text))
	}
	return loaded, nil
}
