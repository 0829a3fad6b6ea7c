package stint

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/*/*.sql
var statementFiles embed.FS

// statements holds the texts of sql/, by file name without its ending; the folders are for people.
type statements map[string]string

// fewQueues is of how many queues own_few hands out at most, manyQueues the condition in own_tasks
// that there are more.
const (
	fewQueues  = 2
	manyQueues = "cardinality($4::text[]) > 2"
)

// loadStatements returns the statements for a schema.
func loadStatements(schema string) (statements, error) {
	files, err := readStatements()
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
	for name, text := range files {
		loaded[name] = qualify.Replace(text)
	}
	return loaded, nil
}

// readStatements reads the statements as they are for the schema "stint". Each store needs them,
// and to read them takes milliseconds.
//
//nolint:gochecknoglobals // never changes
var readStatements = sync.OnceValues(func() (statements, error) {
	files, err := fs.Glob(statementFiles, "sql/*/*.sql")
	if err != nil {
		return nil, err
	}
	read := make(statements, len(files))
	for _, file := range files {
		text, err := statementFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file), ".sql")
		read[name] = sqlfile.Statement(string(text))
	}
	read["own_few"] = strings.ReplaceAll(read["own_tasks"], manyQueues, "false")
	for name, text := range read {
		read[name] = sqlfile.InFull(text)
	}
	return read, nil
})

// writePattern finds what a read-only transaction may not do.
var writePattern = regexp.MustCompile(`\b(INSERT|UPDATE|DELETE|SHARE|nextval)\b`)

// writingStatements are the names of the statements that write.
//
//nolint:gochecknoglobals // never changes
var writingStatements = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	files, _ := readStatements() // New has the error
	for name, text := range files {
		names[name] = writePattern.MatchString(text)
	}
	return names
})
