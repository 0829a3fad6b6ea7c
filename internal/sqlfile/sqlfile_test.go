package sqlfile_test

import (
	"maps"
	"strings"
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
    -- include span_of_key: table=ready;
    --   key=named.key; columns=ready.lo, ready.hi
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
	broken, err := sqlfile.Whole("-- include span_of_key: table=ready; key=1; columns=a AND\n-- b")
	if err != nil || !strings.HasPrefix(broken, "SELECT a AND b\n") {
		t.Errorf("Whole = %q, %v", broken, err)
	}
	for _, wrong := range []string{
		"-- include span_of_key: table=ready", "-- include nothing",
	} {
		if _, err := sqlfile.Whole(wrong); err == nil {
			t.Errorf("Whole(%q) succeeds", wrong)
		}
	}
}

func TestStatement_PutsInPartsAndFailsWithoutThem(t *testing.T) {
	t.Parallel()
	got := sqlfile.Statement("-- name: a\n-- include drop_deadlines\n")
	if !strings.HasPrefix(got, "-- name: a\nDELETE FROM stint.deadlines") {
		t.Errorf("Statement = %q, want the part in it", got)
	}
	if got := sqlfile.Statement("SELECT 1\n-- include nothing"); strings.Contains(got, "SELECT") {
		t.Errorf("Statement without its part = %q, want what no server runs", got)
	}
}

func TestSplit_CutsAFileIntoStatements(t *testing.T) {
	t.Parallel()
	const first, second = "-- name: a\n-- name: of columns\nSELECT 1\n\n", "-- name: b\nSELECT 2\n"
	want := map[string]string{"a": first, "b": second}
	if got := sqlfile.Split(first + second); !maps.Equal(got, want) {
		t.Errorf("Split = %q, want %q", got, want)
	}
	if got := sqlfile.Split("SELECT 0\n" + first); got != nil {
		t.Errorf("Split = %q where the file begins with code, want nothing", got)
	}
}
