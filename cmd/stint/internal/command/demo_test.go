package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/cmd/stint/internal/demo"
)

// Whoever follows the advice of the demo plays it where he has played it before.
func TestDemo_SaysHowToKeepTheTasksWhereItPlayed(t *testing.T) {
	t.Parallel()
	for _, played := range []struct{ schema, url, want string }{
		{demoSchemaName, "", "stint demo --keep\n"},
		{"mine", "", "stint demo --keep --schema mine\n"},
		{schemaDefault, "", "stint demo --keep --schema stint\n"},
		{
			demoSchemaName, "postgres://db.example/app",
			"stint demo --keep --database-url 'postgres://db.example/app'\n",
		},
	} {
		var stdout bytes.Buffer
		p := &program{stdout: &stdout, schema: played.schema, databaseURL: played.url}
		err := p.printSummary(&demo.Summary{OK: true}, false)
		if err != nil || !strings.HasSuffix(stdout.String(), played.want) {
			t.Errorf("in %s of %q: %v, it says %q, want %q", played.schema, played.url, err,
				stdout.String(), played.want)
		}
	}
}
