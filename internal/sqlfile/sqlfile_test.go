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

func TestWhole_PutsInParts(t *testing.T) {
	t.Parallel()
	const file = `SELECT *
FROM (
    -- include span_of_key: table=ready; key=named.key
) AS span
`
	const want = `SELECT *
FROM (
    SELECT ready.lo, ready.hi
    FROM stint.ready
    WHERE ready.lo BETWEEN named.key >> 10 << 10 AND named.key
    ORDER BY ready.lo DESC
    LIMIT 1
) AS span
`
	if got, err := sqlfile.Whole(file); got != want || err != nil {
		t.Errorf("Whole = %q, %v, want %q", got, err, want)
	}
	for _, wrong := range []string{
		"-- include span_of_key: table=ready", "-- include nothing",
	} {
		if _, err := sqlfile.Whole(wrong); err == nil {
			t.Errorf("Whole(%q) succeeds", wrong)
		}
	}
}
