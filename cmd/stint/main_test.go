//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// nowhere is the address of a database that does not answer.
const nowhere = "postgres://127.0.0.1:1/none"

// binary is the command, built by TestMain, which leaves that to whoever runs the tests again.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := "", testrun.Prepare()
	if err == nil {
		dir, err = os.MkdirTemp("", "stint-command-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv(remoteVariable); binary != "" {
		return testdb.Run(m)
	}
	binary = filepath.Join(dir, "stint")
	output, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, ".").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, output)
		return 1
	}
	return testdb.Run(m)
}

// testContext ends long before the limit of the whole test binary.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A ran is a command that has ended.
type ran struct {
	args           []string
	code           int
	stdout, stderr string
}

// newCommand is the command with an environment that has these variables and none of its others.
func newCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), binary, args...)
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		ours := strings.HasPrefix(name, "STINT_") && name != "STINT_PG_BIN"
		if !ours && name != "NO_COLOR" && name != "XDG_DATA_HOME" {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func run(t *testing.T, env []string, stdin string, args ...string) ran {
	t.Helper()
	cmd := newCommand(t, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("stint %q: %v", args, err)
	}
	return ran{args, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// wantExit checks the exit code, and that standard error holds these parts.
func (r ran) wantExit(t *testing.T, code int, parts ...string) ran {
	t.Helper()
	if r.code != code {
		t.Fatalf("stint %q: exit code %d, want %d\n%s%s", r.args, r.code, code, r.stdout, r.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("stint %q: standard error is\n%s\nwant %q in it", r.args, r.stderr, part)
		}
	}
	return r
}

func (r ran) wantOutput(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("stint %q: output is\n%s\nwant %q in it", r.args, r.stdout, part)
		}
	}
}

// decode reads standard output, which is one document.
func (r ran) decode(t *testing.T, into any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("stint %q: %v\n%s", r.args, err, r.stdout)
	}
	if decoder.More() {
		t.Fatalf("stint %q: more than one document:\n%s", r.args, r.stdout)
	}
}

// A database is one that the command works on, and the test's look at it.
type database struct {
	pool  *pgxpool.Pool
	store *stint.Store
	env   []string
	waits *atomic.Int64 // how many calls have asked the service to wait for tasks
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	return databaseOn(t, testdb.New(t))
}

func databaseOn(t *testing.T, pool *pgxpool.Pool) *database {
	t.Helper()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	d := &database{pool: pool, store: store, waits: &atomic.Int64{}}
	d.env = d.environment(t)
	return d
}

func (d *database) run(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	return run(t, d.env, stdin, args...)
}

func (d *database) insert(t *testing.T, tasks ...stint.Task) {
	t.Helper()
	if err := d.store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
}

// own owns a task with the action for an hour.
func (d *database) own(t *testing.T, action string) stint.OwnedTask {
	t.Helper()
	owned, err := d.store.OwnTasks(t.Context(), "actor", 1, []string{action}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %d tasks, %v", len(owned), err)
	}
	return owned[0]
}

// complete owns a task with the action and completes it.
func (d *database) complete(t *testing.T, action string, result []byte) {
	t.Helper()
	d.finish(t, d.own(t, action), result)
}

// finish completes a task that is owned.
func (d *database) finish(t *testing.T, owned stint.OwnedTask, result []byte) {
	t.Helper()
	errs, err := d.store.ReturnTasks(t.Context(), []stint.Return{{
		ID: owned.ID, Token: owned.Token, Code: stint.StatusCompleted,
		Status: "well done", Result: result,
	}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

func (d *database) get(t *testing.T, id stint.TaskID) stint.TaskInfo {
	t.Helper()
	tasks, err := d.store.GetTasks(t.Context(), []stint.TaskID{id})
	if err != nil {
		t.Fatal(err)
	}
	return tasks[0]
}

func (d *database) ids(t *testing.T) []stint.TaskID {
	t.Helper()
	page, err := d.store.ListTasks(t.Context(), stint.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	ids := []stint.TaskID{}
	for _, task := range page.Tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

func (d *database) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := d.pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// A process is a command at work.
type process struct {
	cmd    *exec.Cmd
	output processes.Buffer
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	// A process group of its own, as in a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// says waits until the process has said something.
func (p *process) says(t *testing.T, part string) {
	t.Helper()
	eventually(t, part, func() bool { return strings.Contains(p.output.String(), part) })
}

// interrupt is Ctrl-C, which reaches the whole process group.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

func (p *process) wantExit(t *testing.T, want int) {
	t.Helper()
	_ = p.cmd.Wait() // the exit code says it all
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("exit code %d, want %d\n%s", got, want, p.output.String())
	}
}

// interruptBehind runs a command that comes to wait for what a statement locks, and interrupts it
// there.
func (d *database) interruptBehind(t *testing.T, statement string, args ...string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			return err
		}
		waiting := start(t, newCommand(t, d.env, args...))
		eventually(t, "a command that waits for a lock", func() bool { return d.waitsForLock(t) })
		waiting.interrupt(t)
		waiting.wantExit(t, 130)
		// A service learns only after the command has ended that its caller left.
		eventually(t, "a statement that is cancelled", func() bool { return !d.waitsForLock(t) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitsForLock says whether a statement in the database waits for a lock.
func (d *database) waitsForLock(t *testing.T) (waits bool) {
	t.Helper()
	err := d.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
	if err != nil {
		t.Fatal(err)
	}
	return waits
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

// onTerminal is what a command prints on a terminal.
func onTerminal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	return typed(t, env, "", args...)
}

// typed is what a command prints on a terminal at which somebody types.
func typed(t *testing.T, env []string, text string, args ...string) string {
	t.Helper()
	cmd := newCommand(t, append([]string{"TERM=xterm"}, env...), args...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := terminal.WriteString(text); err != nil {
		t.Fatal(err)
	}
	output, _ := io.ReadAll(terminal) // ends with an error on some systems
	if err := cmd.Wait(); err != nil {
		t.Fatalf("stint %q: %v\n%s", args, err, output)
	}
	return string(output)
}
