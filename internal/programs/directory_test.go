//go:build unix

package programs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

func TestOpen_FindsExecutableRegularFiles(t *testing.T) {
	t.Parallel()
	dir := processes.Write(t, map[string]string{"b": "", "a.py": "", ".hidden": "", "README": ""})
	err := errors.Join(
		os.Chmod(filepath.Join(dir, "README"), 0o600),
		os.Mkdir(filepath.Join(dir, "directory"), 0o700),
		os.Symlink("b", filepath.Join(dir, "link")),
		os.Symlink("directory", filepath.Join(dir, "link-to-directory")),
		os.Symlink("nothing", filepath.Join(dir, "link-to-nothing")))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Actions(); !slices.Equal(got, []string{"a.py", "b", "link"}) {
		t.Errorf("actions = %q", got)
	}
}

// An older version of a program performs no tasks, unless somebody wants it to.
func TestOpen_IgnoresTheCopiesThatToolsLeave(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{"greet": "", "greet.old.py": "", "a#b": ""}
	copies := []string{
		"greet~", "#greet#", "greet.bak", "greet.old", "greet.orig", "greet.rej", "greet.py.swp",
		"greet.tmp", "greet.dpkg-dist", "greet.dpkg-old", "greet.ucf-new", "greet.rpmsave",
		"greet.rpmnew", "greet.rpmorig", "greet.py~",
	}
	for _, name := range copies {
		scripts[name] = ""
	}
	dir := processes.Write(t, scripts)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Actions(); !slices.Equal(got, []string{"a#b", "greet", "greet.old.py"}) {
		t.Errorf("actions = %q", got)
	}
	if d, err = Open(dir, copies...); err != nil || len(d.Actions()) != len(copies) {
		t.Errorf("named: actions = %q, %v", d.Actions(), err)
	}
}

func TestOpen_TakesOnlyTheActionsNamed(t *testing.T) {
	t.Parallel()
	dir := processes.Write(t, map[string]string{"a": "", "b": "", "c": "", ".hidden": ""})
	d, err := Open(dir, "c", "a", "c")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Actions(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("actions = %q", got)
	}
	for action, want := range map[string]error{
		"d": os.ErrNotExist, ".hidden": ErrNotProgram, "": ErrNotProgram, "../a": ErrNotProgram,
	} {
		if _, err := Open(dir, "a", action); !errors.Is(err, want) {
			t.Errorf("%q: error = %v, want %v", action, err, want)
		}
	}
}

func TestOpen_RefusesADirectoryWithoutPrograms(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNoPrograms) {
		t.Errorf("error = %v, want %v", err, ErrNoPrograms)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want %v", err, os.ErrNotExist)
	}
}

func TestProgram_RefusesWhatIsNotAFileOfTheDirectory(t *testing.T) {
	t.Parallel()
	dir := processes.Write(t, map[string]string{"a": "", "outside": "", ".hidden": ""})
	if err := os.Mkdir(filepath.Join(dir, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &Directory{path: filepath.Join(dir, "inner")}
	for _, action := range []string{
		"", ".", "..", "../outside", "/bin/sh", "a/../../outside", `..\outside`, ".hidden", "./a",
	} {
		if path, err := d.program(action); !errors.Is(err, ErrNotProgram) {
			t.Errorf("%q: path = %q, error = %v, want %v", action, path, err, ErrNotProgram)
		}
	}
	d = &Directory{path: dir}
	if path, err := d.program("a"); err != nil || path != filepath.Join(dir, "a") {
		t.Errorf("path = %q, error = %v", path, err)
	}
	if _, err := d.program("inner"); !errors.Is(err, ErrNotProgram) {
		t.Errorf("error = %v, want %v", err, ErrNotProgram)
	}
}

func TestHandlers_HaveNoNameThatNoActionCanHave(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDirectory(t, map[string]string{stint.Spontaneous: ""})
	_, err := worker.New(newStore(t), worker.Options{}, d.Handlers()...)
	if !errors.Is(err, stint.ErrInvalidArgument) {
		t.Errorf("error = %v, want %v", err, stint.ErrInvalidArgument)
	}
}

func TestHandlers_LeaveOtherActionsToOthers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "evil", Action: "../a", Priority: 1},
		stint.Task{ID: "a", Action: "a"})
	start(t, store, newDirectory(t, map[string]string{"a": ""}))
	if info := finish(t, store, "a"); info.State != stint.StateCompleted {
		t.Errorf("got %+v, want it completed", info)
	}
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{"evil"})
	if err != nil || infos[0].Tries != 0 {
		t.Errorf("got %+v, %v, want it untouched", infos, err)
	}
}
