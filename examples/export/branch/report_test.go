package branch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A tampering changes what there is of a branch.
type tampering func(t *testing.T, s *story, branch string)

func write(name ...string) tampering {
	return func(t *testing.T, s *story, branch string) {
		t.Helper()
		path := filepath.Join(append([]string{s.dir, branch}, name...)...)
		if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(name ...string) tampering {
	return func(t *testing.T, s *story, branch string) {
		t.Helper()
		path := filepath.Join(append([]string{s.dir, branch}, name...)...)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func execute(statement string) tampering {
	return func(t *testing.T, s *story, branch string) {
		t.Helper()
		s.exec(t, statement, branch)
	}
}

var tamperings = []struct {
	tamper tampering
	want   []string // The beginnings of the problems; none for none.
}{
	{func(*testing.T, *story, string) {}, nil},
	{write("data", "a", "x"), []string{`the destination has other bytes in "a/x"`}},
	{remove("data", "a", "x"), []string{`the destination lacks "a/x"`}},
	{write("data", "extra"), []string{`the destination has "extra", the commit has not`}},
	{
		write("data", "a", "_SUCCESS"),
		[]string{`the destination has other bytes in "a/_SUCCESS"`},
	},
	{remove("data", "empty", "_SUCCESS"), []string{`the destination lacks "empty/_SUCCESS"`}},
	{remove("manifests", "2.json"), []string{"no manifest of the last export"}},
	{write("manifests", "2.json"), []string{"no manifest of the last export"}},
	{
		execute("UPDATE objects SET content = 'other' WHERE branch = $1 AND path = 'top'" +
			" AND removed IS NULL"),
		[]string{`the destination has other bytes in "top"`},
	},
	{
		execute("UPDATE exports SET commit = 1 WHERE branch = $1"),
		[]string{"the last export is of commit 1, the newest commit is 2"},
	},
	{
		execute("UPDATE exports SET request = 3 - number, requested = 3 - number" +
			" WHERE branch = $1"),
		[]string{"export 2: an export was of an older request"},
	},
	{
		execute("UPDATE exports SET requested = 1 WHERE branch = $1 AND number = 2"),
		[]string{"export 2: next-export was performed with an old request"},
	},
	{
		execute("DELETE FROM performances WHERE branch = $1 AND export = 1 AND path = 'a/x'"),
		[]string{"export 1: tasks were neither performed nor aborted"},
	},
	{
		execute("UPDATE exports SET aborted = 1 WHERE branch = $1 AND number = 1"),
		[]string{"export 1: tasks were neither performed nor aborted"},
	},
	{ // As if the manifest of the last export had not been performed.
		execute("UPDATE exports SET aborted = NULL WHERE branch = $1 AND number = 2"),
		[]string{"export 2: tasks were neither performed nor aborted"},
	},
	{
		execute("UPDATE performances SET place = DEFAULT" +
			" WHERE branch = $1 AND export = 2 AND path = 'a/b/y'"),
		[]string{"export 2: a _SUCCESS object was made before", "export 2: a _SUCCESS object"},
	},
	{
		execute("UPDATE performances SET place = DEFAULT" +
			" WHERE branch = $1 AND export = 1 AND path = 'top'"),
		[]string{"2 exports were under way at the same time"},
	},
}

// Whatever is not as promised, in the files or in the tables, is found and named.
func TestReport_FindsTampering(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newStory(t)
	name := func(n int) string { return fmt.Sprintf("branch-%02d", n) }
	for range 2 {
		for n := range tamperings {
			s.addBranch(t, name(n))
			s.commit(t, name(n))
		}
		s.drain(t)
	}
	for n, test := range tamperings {
		s.wantKept(t, name(n), 2)
		test.tamper(t, s, name(n))
		got := s.report(t, name(n)).Problems
		if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("problems of %d: %q, want %q", n, got, test.want)
		}
	}
}

func TestAddBranch_AddsOneWithoutCommits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newStory(t)
	for _, branch := range []string{"", ".", "..", ".hidden", "a/b", "../a"} {
		if err := s.AddBranch(t.Context(), branch, nil); err == nil {
			t.Errorf("AddBranch(%q) = nil, want an error", branch)
		}
	}
	for range 2 { // The second time changes nothing.
		s.addBranch(t, "new")
	}
	if err := s.Request(t.Context(), "new"); err != nil { // There is nothing to export.
		t.Fatal(err)
	}
	if r := s.report(t, "new"); len(r.Problems) != 0 || r.Head != 0 || r.Requests != 0 {
		t.Errorf("Report = %+v", r)
	}
	if r, err := s.Report(t.Context(), "none"); err == nil {
		t.Errorf("Report of no branch = %+v, want an error", r)
	}
}
