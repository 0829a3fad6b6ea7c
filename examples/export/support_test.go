//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
)

const leaseInTests = 30 * time.Second

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
type database struct {
	pool  *pgxpool.Pool
	store *stint.Store
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	return &database{pool: pool, store: store}
}

func (d *database) start(t *testing.T, from, to string, more ...string) *process {
	t.Helper()
	args := []string{"-database-url", testdb.URL(d.pool), "-from", from, "-to", to}
	return start(t, nil, append(args, more...)...)
}

// export runs the program to its end.
func (d *database) export(t *testing.T, from, to string, more ...string) *process {
	t.Helper()
	p := d.start(t, from, to, more...)
	p.wait(t)
	return p
}

func (d *database) list(t *testing.T, state stint.State) map[stint.TaskID]stint.TaskInfo {
	t.Helper()
	const most = 10_000
	page, err := d.store.ListTasks(t.Context(),
		stint.Filter{States: []stint.State{state}, Limit: most})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[stint.TaskID]stint.TaskInfo, len(page.Tasks))
	for _, info := range page.Tasks {
		found[info.ID] = info
	}
	return found
}

func (d *database) count(t *testing.T, state stint.State) int {
	t.Helper()
	return len(d.list(t, state))
}

// A gate keeps the program from owning and returning tasks: both write to the table of the leases.
type gate struct {
	db     *database
	closed pgx.Tx
}

// closeGate closes a gate until the test opens it, or ends.
func (d *database) closeGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{db: d}
	g.closed = g.begin(t)
	g.lock(t, g.closed)
	t.Cleanup(func() { g.open(t) })
	return g
}

func (g *gate) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := g.db.pool.Begin(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (g *gate) lock(t *testing.T, tx pgx.Tx) {
	t.Helper()
	_, err := tx.Exec(testContext(t), "LOCK TABLE stint.leases IN SHARE ROW EXCLUSIVE MODE")
	if err != nil {
		t.Errorf("close the gate: %v", err)
	}
}

// step lets those statements through that wait at the gate, and none that comes later: the queue
// for a lock is kept in order. So the program cannot get far unseen, however busy the machine is.
func (g *gate) step(t *testing.T) {
	t.Helper()
	next, locked := g.begin(t), make(chan struct{})
	go func() {
		defer close(locked)
		g.lock(t, next)
	}()
	pid := next.Conn().PgConn().PID()
	eventually(t, "place in the queue", func() bool {
		var waits bool
		err := g.db.pool.QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", pid).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	})
	g.open(t)
	<-locked
	g.closed = next
}

// stepUntil steps until condition holds.
func (g *gate) stepUntil(t *testing.T, condition func() bool) {
	t.Helper()
	eventually(t, "moment to stop at", func() bool {
		g.step(t)
		return condition()
	})
}

func (g *gate) open(t *testing.T) {
	t.Helper()
	if g.closed == nil {
		return
	}
	if err := g.closed.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("open the gate: %v", err)
	}
	g.closed = nil
}

// waitForSession waits until a session of the program is as the condition says.
func (d *database) waitForSession(t *testing.T, condition string) {
	t.Helper()
	eventually(t, "session with "+condition, func() bool { return d.sessions(t, condition) > 0 })
}

func (d *database) waitForNoSession(t *testing.T) {
	t.Helper()
	eventually(t, "end of the sessions", func() bool { return d.sessions(t, "true") == 0 })
}

func (d *database) sessions(t *testing.T, condition string) int {
	t.Helper()
	var n int
	err := d.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'export' AND `+condition).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	err := errors.Join(os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode))
	if err != nil {
		t.Fatal(err)
	}
}

func numberedFiles(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		name := fmt.Sprintf("%04d", i)
		write(t, filepath.Join(dir, name), strings.Repeat(name, i), 0o600)
	}
	return dir
}

// awkwardTree holds eleven files and links, and more.
func awkwardTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	deep := filepath.Join(slices.Repeat([]string{strings.Repeat("deep", 30)}, 10)...)
	for _, dir := range []string{"empty", "read only/below", "sp ace/quo'te\"s\\", deep} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "nothing"), "", 0o644)
	write(t, filepath.Join(root, "large"), strings.Repeat("0123456789abcdef", 1<<16), 0o640)
	write(t, filepath.Join(root, "read only", "file"), "read only", 0o444)
	write(t, filepath.Join(root, "sp ace", "quo'te\"s\\", "new\nline %s"), "\x00\xff", 0o755)
	write(t, filepath.Join(root, "überall 世界 🙂"), "text", 0o600)
	write(t, filepath.Join(root, deep, "file"), "deep", 0o600)
	write(t, filepath.Join(root, "-from"), "flag", 0o600)
	notText := "caf\xe9"
	if err := os.WriteFile(filepath.Join(root, notText), nil, 0o600); err != nil {
		notText = "no non-UTF-8 names here"
	}
	write(t, filepath.Join(root, notText), "latin-1", 0o600)
	links := map[string]string{
		"link": "nothing", "dangling": "/does/not/exist", "link to directory": "sp ace",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"nothing", "read only/file", "empty", "read only"} {
		then := time.Date(2001, time.January, 1+i, 2, 3, 4, 567_000_000, time.UTC)
		if err := os.Chtimes(filepath.Join(root, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(root, "read only")
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	return root
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

// snapshot describes everything below a directory: kinds, modes, times and contents.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	each(t, root, func(path string, info fs.FileInfo) error {
		full := filepath.Join(root, path)
		text := fmt.Sprintf("%v %v", info.Mode(), info.ModTime())
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(full)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %q", content)
		case fs.ModeSymlink:
			target, err := os.Readlink(full)
			if err != nil {
				return err
			}
			text = "link to " + target
		default: // a directory has no contents of its own
		}
		found[path] = text
		return nil
	})
	return found
}

// each calls visit with everything below root, by its relative path.
func each(t *testing.T, root string, visit func(string, fs.FileInfo) error) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, dir fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := dir.Info()
		if err != nil {
			return err
		}
		return visit(strings.TrimPrefix(path, root+"/"), info)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func wantSame(t *testing.T, got, want map[string]string) {
	t.Helper()
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if got[path] != want[path] {
			t.Errorf("%q is %.200q, want %.200q", path, got[path], want[path])
		}
	}
}

// untouched are files by their paths, to see later whether they are the same ones.
type untouched map[string]untouchedFile

type untouchedFile struct {
	full string
	info fs.FileInfo
}

func inodes(t *testing.T, root string) untouched {
	t.Helper()
	found := untouched{}
	each(t, root, func(path string, info fs.FileInfo) error {
		if copyable(info.Mode()) && !strings.HasPrefix(path, ".stint-export-") {
			found[path] = untouchedFile{filepath.Join(root, path), info}
		}
		return nil
	})
	return found
}

// wantUntouched checks that each file is the same inode. A copy would have got a new one.
func (u untouched) wantUntouched(t *testing.T) {
	t.Helper()
	for path, before := range u {
		if now, err := os.Lstat(before.full); err != nil || !os.SameFile(before.info, now) {
			t.Errorf("%q was copied again (%v)", path, err)
		}
	}
}
