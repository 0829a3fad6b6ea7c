//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
)

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
		select {
		case <-ctx.Done():
			t.Fatalf("%s: never came", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// A process is the program at work.
type process struct {
	cmd    *exec.Cmd
	output processes.Buffer
	ended  sync.Once
}

func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // It has ended, unless the test failed.
		p.wait(t)
		if t.Failed() {
			t.Logf("output of export:\n%s", p.output.String())
		}
	})
	return p
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("signal %v: %v", signal, err)
	}
}

func (p *process) wait(t *testing.T) {
	t.Helper()
	p.ended.Do(func() {
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("wait for export: %v", err)
		}
	})
}

func (p *process) wantExit(t *testing.T, want int) {
	t.Helper()
	p.wait(t)
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("exit code = %d, want %d", got, want)
	}
}

func (p *process) wantOutput(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if output := p.output.String(); !strings.Contains(output, part) {
			t.Errorf("output is\n%s\nwant %q in it", output, part)
		}
	}
}

func (p *process) waitForOutput(t *testing.T, part string) {
	t.Helper()
	eventually(t, fmt.Sprintf("output %q", part), func() bool {
		return strings.Contains(p.output.String(), part)
	})
}

// A database is one that the program keeps its tasks in, and the test's look at it.
type database struct{ pool *pgxpool.Pool }

func newDatabase(t *testing.T) *database {
	t.Helper()
	return &database{testdb.NewEmpty(t)}
}

func (d *database) waitForNoSession(t *testing.T) {
	t.Helper()
	eventually(t, "end of the sessions", func() bool {
		var n int
		err := d.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'export'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// openTempDir is a temporary directory that the account of a server that root starts can reach.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stint-export-") //nolint:usetesting // those are closed to others
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
