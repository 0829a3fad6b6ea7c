package sqlfile_test

import (
	"testing"

	"github.com/stint-tasks/stint/internal/sqlfile"
)

func TestStatement_KeepsTheName(t *testing.T) {
	t.Parallel()
	const file = `-- name: example
--
-- Says why.
SELECT 5 /* replaced */, -- the cause
    -- and where it happens
       '--'
`
	const want = `-- name: example
SELECT 5 /* replaced */, -- the cause
       '--'`
	if got := sqlfile.Statement(file); got != want {
		t.Errorf("Statement = %q, want %q", got, want)
	}
}
