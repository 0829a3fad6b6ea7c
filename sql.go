package stint

import (
	"embed"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// statements holds the texts of sql/, by file name without its ending.
type statements map[string]string

// loadStatements reads the statements for a schema. Of the comment on top of a file only the line
// with the name stays: it shows in pg_stat_activity and in traces.
func loadStatements(schema string) (statements, error) {
	files, err := statementFiles.ReadDir("sql")
	if err != nil {
		return nil, err
	}
	qualifier := pgx.Identifier{schema}.Sanitize() + "."
	qualify := strings.NewReplacer(
		"LISTEN stint", "LISTEN "+strings.TrimSuffix(qualifier, "."),
		"'"+Spontaneous+"'", "'"+Spontaneous+"'", // an action, which is no name
		"'stint.", "'"+strings.ReplaceAll(qualifier, "'", "''"),
		"stint.", qualifier,
	)
	loaded := make(statements, len(files))
	for _, file := range files {
		text, err := statementFiles.ReadFile(path.Join("sql", file.Name()))
		if err != nil {
			return nil, err
		}
		var kept []string
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if i == 0 || !strings.HasPrefix(line, "--") {
				kept = append(kept, line)
			}
		}
		name := strings.TrimSuffix(file.Name(), ".sql")
		loaded[name] = qualify.Replace(strings.Join(kept, "\n"))
	}
	return loaded, nil
}
