//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves R1.
func TestInsert_EnsuresWhatIsMissing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	input := `{"id":"a","action":"act"}` + "\n" + `{"id":"b","action":"act","after":["a"]}`
	db.run(t, input, "insert", "--ensure").wantExit(t, 0, "inserted 2 tasks")
	more := input + "\n" + `{"id":"c","action":"act","after":["b"]}` + "\n" + `{"action":"act"}`
	r := db.run(t, more, "insert", "--ensure").wantExit(t, 0, "inserted 2 tasks",
		`left out "a", which was there`, `left out "b", which was there`)
	if len(strings.Fields(r.stdout)) != 1 {
		t.Errorf("insert --ensure printed %q, want the new ID", r.stdout)
	}
	r = db.run(t, more, "insert", "--ensure", "--json").wantExit(t, 0)
	var document struct {
		Inserted int
		Existing []string
		NewIDs   []string `json:"new_ids"`
	}
	r.decode(t, &document)
	if document.Inserted != 1 || !slices.Equal(document.Existing, []string{"a", "b", "c"}) ||
		len(document.NewIDs) != 1 {
		t.Errorf("insert --ensure --json printed %s", r.stdout)
	}
	r = db.run(t, "", "insert", "--ensure", "--json").wantExit(t, 0)
	if r.stdout != "{\"inserted\":0,\"new_ids\":[],\"existing\":[]}\n" {
		t.Errorf("insert --ensure --json of nothing printed %s", r.stdout)
	}
	daily := []string{"insert", "--action", "act", "--id", "day", "--once-per", "87600h"}
	db.run(t, "", daily...).wantExit(t, 0, "inserted 1 task")
	db.run(t, "", append(daily, "--ensure")...).wantExit(t, 0, "inserted 0 tasks")
	db.run(t, "", daily...).wantExit(t, 6)
	db.run(t, `{"id":"x"}`, "insert", "--ensure").wantExit(t, 2, "line 1")
}

// A long input is inserted in pieces: what is wrong with the second leaves the first.
func TestInsert_EnsuresLongInputInPieces(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const piece = 100_000
	db := newDatabase(t)
	var input strings.Builder
	for i := range piece + 2 {
		fmt.Fprintf(&input, `{"id":"t%d","action":"act"}`+"\n", i)
	}
	wrong := input.String() + `{"id":"wrong","action":"` + strings.Repeat("x", 300) + `"}`
	db.run(t, wrong, "insert", "--ensure").wantExit(t, 1, "stopped after inserting 100,000 tasks: ",
		fmt.Sprintf("line %d: action", piece+3))
	unread := input.String() + `{"id":"unread"`
	r := db.run(t, unread, "insert", "--ensure").wantExit(t, 2, fmt.Sprintf("line %d", piece+3))
	if strings.Contains(r.stderr, "stopped") { // the first piece was there
		t.Errorf("insert --ensure says %s", r.stderr)
	}
	r = db.run(t, input.String(), "insert", "--ensure").wantExit(t, 0, "inserted 2 tasks",
		"99,990 other tasks")
	if lines := strings.Count(r.stderr, "\n"); lines > 20 {
		t.Errorf("insert --ensure printed %d lines", lines)
	}
}
