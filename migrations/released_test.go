package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/golden"
)

// A frozen file stays as it is once a release has it, unless it raises its version. A version of
// the schema has none to raise.
type frozen struct {
	sum     string
	version int
}

// functionVersion finds the version of an SQL function in its text.
var functionVersion = regexp.MustCompile(`\n-- Version (\d+) of the function`)

// freeze returns what a release with these files freezes, by their paths. Of the files that make
// functions it is what is behind the comment at their top.
func freeze(t *testing.T, files map[string]string) map[string]frozen {
	t.Helper()
	all := map[string]frozen{}
	for name, text := range files {
		f := frozen{}
		if path.Dir(name) == "." {
			_, text, _ = strings.Cut(text, "CREATE OR REPLACE FUNCTION")
			found := functionVersion.FindStringSubmatch(text)
			if found == nil {
				t.Fatalf("%s does not say which version of the function it makes", name)
			}
			f.version, _ = strconv.Atoi(found[1]) // digits
		}
		f.sum = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		all[name] = f
	}
	return all
}

// here is what a release of these files would freeze.
func here(t *testing.T) map[string]frozen {
	t.Helper()
	names, err := filepath.Glob("versions/*.sql")
	if err != nil || len(names) < 2 {
		t.Fatalf("there are %d versions, %v", len(names), err)
	}
	files := map[string]string{}
	for _, name := range append(names, "functions.sql", "finish_task.sql") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.ToSlash(name)] = string(text)
	}
	return freeze(t, files)
}

// changed names what a release froze and is gone or another now.
func changed(then, now map[string]frozen) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(then)) {
		was, is := then[name], now[name]
		switch {
		case was.sum == is.sum || is.version > was.version:
		case was.version == 0:
			faults = append(faults, name+" has changed: undo that, and make a new version")
		default:
			faults = append(faults, fmt.Sprintf("%s has changed: raise the version of the "+
				"function, in its text, to %d", name, was.version+1))
		}
	}
	return faults
}

// The list names what a release of this commit freezes, so that it is complete when a tag is set,
// and a copy of the sources without tags has it.
func TestReleased_ListsWhatIsHere(t *testing.T) {
	t.Parallel()
	now, list := here(t), ""
	for _, name := range slices.Sorted(maps.Keys(now)) {
		list += now[name].sum + "  " + name
		if version := now[name].version; version > 0 {
			list += fmt.Sprint(", version ", version)
		}
		list += "\n"
	}
	golden.Want(t, "testdata/released.txt", list)
	if t.Failed() {
		t.Log("A version of the schema that a release has never changes: make a new one. A " +
			"function that a release has raises its version. What no tag has yet may change: " +
			"go test -run Released ./migrations -update")
	}
}

// Databases have what a release made of them, and no later one would look for less or more.
func TestReleased_StaysAsTheTagsHaveIt(t *testing.T) {
	t.Parallel()
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		if err != nil {
			t.Skipf("git %q: %v: it needs a clone of the repository", args, err)
		}
		return string(out)
	}
	now := here(t)
	for _, tag := range strings.Fields(git("tag", "--list", "v*")) {
		if strings.Contains(tag, "-") {
			continue // v0.1.0-rc.1 is no release
		}
		files := map[string]string{}
		for _, name := range strings.Fields(git("ls-tree", "--name-only", tag, "versions/",
			"functions.sql", "finish_task.sql")) {
			files[name] = git("show", tag+":./"+name)
		}
		for _, fault := range changed(freeze(t, files), now) {
			t.Errorf("%s has been released: %s", tag, fault)
		}
	}
}

func TestReleased_MayOnlyGrow(t *testing.T) {
	t.Parallel()
	const table, code = "versions/002.sql", "functions.sql"
	then := map[string]frozen{table: {"a", 0}, code: {"b", 2}}
	for name, of := range map[string]struct {
		now    map[string]frozen
		faults int
	}{
		"nothing changed":       {then, 0},
		"a version is new":      {map[string]frozen{table: {"a", 0}, code: {"b", 2}, "c": {}}, 0},
		"a version changed":     {map[string]frozen{table: {"x", 0}, code: {"b", 2}}, 1},
		"a version is gone":     {map[string]frozen{code: {"b", 2}}, 1},
		"a function changed":    {map[string]frozen{table: {"a", 0}, code: {"x", 2}}, 1},
		"a function is older":   {map[string]frozen{table: {"a", 0}, code: {"x", 1}}, 1},
		"a function was raised": {map[string]frozen{table: {"a", 0}, code: {"x", 3}}, 0},
	} {
		if got := changed(then, of.now); len(got) != of.faults {
			t.Errorf("%s: changed names %q, want %d", name, got, of.faults)
		}
	}
}
