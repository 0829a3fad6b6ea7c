//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
)

// programEnv makes the test binary be the program, so that the tests see what its users see, and
// the race detector sees the program.
const programEnv = "STINT_TEST_COMPUTE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		return
	}
	testdb.Main(m)
}

// testContext ends long before the limit of the whole test binary.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx := testContext(t)
	for !condition() {
		if !wait(ctx, 2*time.Millisecond) {
			t.Fatalf("%s: never came", what)
		}
	}
}

// A program is the program at work, with its clients and workers.
type program struct {
	cmd    *exec.Cmd
	output processes.Buffer
	ended  sync.Once
}

// start starts the program. It is killed at the end of the test at the latest.
func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.CommandContext(testContext(t), os.Args[0], args...)}
	p.cmd.Env = append(append(os.Environ(), programEnv+"=1"), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // It has ended, unless the test failed.
		p.wait(t)
		if t.Failed() {
			t.Logf("output of compute:\n%s", p.output.String())
		}
	})
	return p
}

func (p *program) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("signal %v: %v", signal, err)
	}
}

// wait waits for the program and for all that it started: they have its output too.
func (p *program) wait(t *testing.T) {
	t.Helper()
	p.ended.Do(func() {
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("wait for compute: %v", err)
		}
	})
}

func (p *program) wantExit(t *testing.T, want int) {
	t.Helper()
	p.wait(t)
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("exit code = %d, want %d", got, want)
	}
}

func (p *program) wantOutput(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if output := p.output.String(); !strings.Contains(output, part) {
			t.Errorf("output is\n%s\nwant %q in it", output, part)
		}
	}
}

// entries are those of the journal, as far as it is written.
func entries(t *testing.T, path string) []entry {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	found, _, err := readJournal(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func count(entries []entry, kind kind) int {
	n := 0
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// A bench is what a client or a worker needs, in the process of the test.
type bench struct {
	*database
	journal *journal
	path    string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	url, schema := testdb.URL(testdb.NewEmpty(t)), "compute_"+uuid.NewString()
	if err := makeSchemas(t.Context(), url, schema); err != nil {
		t.Fatal(err)
	}
	db, err := openDatabase(t.Context(), url, schema)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{database: db, path: filepath.Join(t.TempDir(), "journal")}
	if b.journal, err = openJournal(b.path, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.close(), b.journal.close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// openTempDir returns a directory that the account of a server can enter.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "compute-") //nolint:usetesting // those are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
