package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// The program counts what a person counts, and leaves nothing in a database of yours.
func TestRun_CountsWords(t *testing.T) {
	t.Parallel()
	testrun.Long(t) // until the task of the worker that stops is available again
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "func main() { main(); α(0x1F) }\n", "b/c.go": "// func α b_1",
		"b/d.txt": "func", "e.go": "\xff func\xffmain",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := testdb.NewEmpty(t)
	for _, workers := range []string{"1", "3"} {
		var printed bytes.Buffer
		args := []string{"-dir", dir, "-workers", workers, "-database-url", testdb.URL(pool)}
		if err := run(t.Context(), args, &printed); err != nil {
			t.Fatalf("run = %v", err)
		}
		for _, want := range []string{
			"in 3 Go files in", "1 map task and 32 reduce tasks are done\n",
			"           3  func\n           3  main\n           2  α\n           1  b_1\n",
			"           4  different words",
		} {
			if !strings.Contains(printed.String(), want) {
				t.Errorf("run prints\n%s\nwant %q in it", printed.String(), want)
			}
		}
		if got := strings.Contains(printed.String(), "stopped"); got != (workers == "3") {
			t.Errorf("%s workers: run prints %s", workers, printed.String())
		}
	}
	var schemas int
	err := pool.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'mapreduce%'").Scan(&schemas)
	if err != nil || schemas != 0 {
		t.Errorf("%d schemas are left, %v", schemas, err)
	}
}

// Over the network it counts the same, and leaves nothing in the store.
func TestRun_CountsOverTheNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := taskstore.New(testdb.New(t), taskstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(taskstore.Handler(store))
	defer server.Close()
	var printed bytes.Buffer
	args := []string{"-dir", dir, "-workers", "1", "-server", server.URL}
	if err := run(t.Context(), args, &printed); err != nil {
		t.Fatalf("run = %v", err)
	}
	if !strings.Contains(printed.String(), "           2  different words") {
		t.Errorf("run prints\n%s", printed.String())
	}
	if groups, err := store.Groups(t.Context()); err != nil || len(groups) > 0 {
		t.Errorf("Groups = %q, %v, want none", groups, err)
	}
}

func TestRun_FailsWithoutWhatItNeeds(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, args := range [][]string{
		{"-dir", filepath.Join(empty, "none")},
		{"-dir", empty, "-database-url", "postgres://127.0.0.1:1/app"},
		{"-dir", empty, "-server", "localhost"},
		{"-dir", empty, "-server", "http://127.0.0.1:1"},
		{"-dir", empty, "-server", "http://127.0.0.1:1", "-database-url", "postgres:///app"},
		{"-dir", empty, "-workers", "0"},
		{"-unknown"},
	} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("run %q succeeds", args)
		}
	}
}

// A worker that is interrupted does not wait for a task that another owns.
func TestRun_EndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	printed := writerFunc(func(text []byte) (int, error) {
		interrupt() // as soon as it says what it does
		return len(text), nil
	})
	args := []string{"-dir", dir, "-database-url", testdb.URL(testdb.NewEmpty(t))}
	if err := run(ctx, args, printed); err == nil {
		t.Error("run succeeds")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }
