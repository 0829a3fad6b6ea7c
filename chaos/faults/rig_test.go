//go:build linux

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/faults"
	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

func TestMain(m *testing.M) {
	if err := testrun.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// patience is how long something may take that happens soon.
const patience = time.Minute

// A rig is a system with a server of its own, and a table.
type rig struct {
	*system.System
	t       *testing.T
	proxy   *pgcut.Proxy
	through *pgxpool.Pool         // through the proxy
	over    atomic.Pointer[error] // what the fault has returned
	n       int
}

func newRig(t *testing.T, processes ...*system.Process) *rig {
	t.Helper()
	testrun.Long(t)
	server, dir := newServer(t)
	r := &rig{t: t, System: &system.System{
		Server: server, Dir: dir, Schema: "stint", Log: t.Logf,
		Processes: func() []*system.Process { return processes },
	}}
	conn, err := pgx.Connect(t.Context(), server.Address())
	noErr(t, err)
	noErr(t, migrations.Migrate(t.Context(), conn))
	_, err = conn.Exec(t.Context(), "CREATE TABLE public.kept (n integer)")
	noErr(t, err)
	noErr(t, conn.Close(t.Context()))
	r.proxy = pgcut.New(t, server.Pool())
	r.through = r.proxy.Pool(t, 4)
	r.Proxies = []*pgcut.Proxy{r.proxy}
	return r
}

func newServer(t *testing.T) (server *system.Server, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "stint-faults-") //nolint:usetesting // that is closed to others
	noErr(t, err)
	noErr(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server, err = system.New(t.Context(), filepath.Join(dir, "server"), map[string]string{
		"wal_level": "logical", "max_connections": "40", "max_replication_slots": "8",
	})
	noErr(t, err)
	t.Cleanup(func() {
		if err := server.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return server, dir
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fault is the fault of that name.
func fault(t *testing.T, name string) faults.Fault {
	t.Helper()
	for _, f := range faults.All() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no fault %s", name)
	return faults.Fault{}
}

// during calls observe while a fault is at work, ends the fault, and checks that the system serves
// as before.
func (r *rig) during(name string, observe func()) {
	r.t.Helper()
	f := fault(r.t, name)
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := f.Do(ctx, r.System, newRand(), time.Hour)
		r.over.Store(&err)
		done <- err
	}()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, faults.ErrNotHere) { // of which eventually has told
			r.skipOrFail(err)
			r.serves()
		}
	}()
	observe()
}

func newRand() *rand.Rand {
	return rand.New(rand.NewPCG(rand.Uint64(), 0))
}

// skipOrFail is what becomes of a test by the error of its fault.
func (r *rig) skipOrFail(err error) {
	r.t.Helper()
	switch {
	case errors.Is(err, faults.ErrNotHere):
		testrun.Missing(r.t, err.Error())
	case err != nil && !errors.Is(err, context.Canceled):
		r.t.Errorf("Do = %v", err)
	}
}

// serves waits until a row can be written through the proxy and without.
func (r *rig) serves() {
	r.t.Helper()
	r.over.Store(nil)
	for _, pool := range []*pgxpool.Pool{r.Server.Pool(), r.through} {
		r.eventually("a row can be written", func() bool {
			err := r.exec(pool, "INSERT INTO public.kept VALUES (-1)")
			if err != nil {
				r.t.Log(err)
			}
			return err == nil
		})
	}
	const inARow = 300 // of which one of fifty must not fail
	r.through.Reset()
	for i := range inARow {
		if err := r.exec(r.through, "SELECT 1"); err != nil {
			r.t.Fatalf("afterwards statement %d = %v", i, err)
		}
	}
}

// wantWithout checks that a process has not loaded a library.
func wantWithout(t *testing.T, pid int, library string) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil || strings.Contains(string(maps), library) {
		t.Errorf("afterwards process %d has %s (%v)", pid, library, err)
	}
}

// eventually waits until something is so. It fails if the fault ends before, and ends the test if
// the fault cannot be tried here.
func (r *rig) eventually(what string, so func() bool) {
	r.t.Helper()
	const often = 10 * time.Millisecond
	deadline := time.After(patience)
	for !so() {
		if over := r.over.Load(); over != nil {
			if errors.Is(*over, faults.ErrNotHere) {
				testrun.Missing(r.t, (*over).Error())
			}
			r.t.Fatalf("the fault ended before it was so that %s: %v", what, *over)
		}
		select {
		case <-time.After(often):
		case <-deadline:
			r.t.Fatalf("it does not become so that %s", what)
		}
	}
}

// query is a file of testdata.
func (r *rig) query(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".sql"))
	noErr(r.t, err)
	return string(text)
}

// exec executes a statement, within a second or two.
func (r *rig) exec(pool *pgxpool.Pool, statement string, args ...any) error {
	const most = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.t.Context(), most)
	defer cancel()
	_, err := pool.Exec(ctx, statement, args...)
	return err
}

// number is what a query without a proxy returns; -1 if it fails.
func (r *rig) number(query string, args ...any) (n int) {
	const most = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.t.Context(), most)
	defer cancel()
	if err := r.Server.Pool().QueryRow(ctx, query, args...).Scan(&n); err != nil {
		return -1
	}
	return n
}

// text is the same of a text; "" if it fails.
func (r *rig) text(query string, args ...any) (text string) {
	const most = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.t.Context(), most)
	defer cancel()
	if err := r.Server.Pool().QueryRow(ctx, query, args...).Scan(&text); err != nil {
		return ""
	}
	return text
}

// insert writes a row with a number of its own through the proxy.
func (r *rig) insert() (n int, err error) {
	r.n++
	return r.n, r.exec(r.through, "INSERT INTO public.kept VALUES ($1)", r.n)
}

func (r *rig) has(n int) bool {
	return r.number("SELECT count(*) FROM public.kept WHERE n = $1", n) > 0
}

// fill inserts tasks, and owns one of them.
func (r *rig) fill() {
	r.t.Helper()
	store, err := stint.New(r.Server.Pool(), stint.Options{Maintenance: stint.MaintainNever})
	noErr(r.t, err)
	ctx := r.t.Context()
	for range 3 {
		noErr(r.t, store.InsertTasks(ctx, []stint.Task{{Action: "act"}}))
	}
	_, err = store.OwnTasks(ctx, "owner", 1, []string{"act"}, time.Hour)
	noErr(r.t, err)
	noErr(r.t, store.Close(ctx))
}

// code is the code of the server's error, "" if it is none of the server.
func code(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// cut reports whether an error is that of a connection, and neither the server's nor ours.
func cut(err error) bool {
	return err != nil && code(err) == "" && !errors.Is(err, context.DeadlineExceeded)
}

// said reports whether the server has written a text into its log.
func (r *rig) said(text string) bool {
	found := false
	_ = filepath.WalkDir(r.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "log" && !entry.IsDir() {
			log, _ := os.ReadFile(path)
			found = found || strings.Contains(string(log), text)
		}
		return nil
	})
	return found
}

// state is the letter of /proc for the state of a process; "" if there is none.
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}

// commands are the command lines of the processes that name the directory of the system.
func (r *rig) commands(program string) (pids []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		if strings.HasPrefix(filepath.Base(string(line)), program) ||
			strings.Contains(string(line), "/"+program+"\x00") {
			if strings.Contains(string(line), r.Dir) {
				pids = append(pids, filepath.Base(filepath.Dir(path)))
			}
		}
	}
	return pids
}

// process is one of a system, which runs until the test ends.
func process(t *testing.T, kind string, args ...string) *system.Process {
	t.Helper()
	p := &system.Process{Kind: kind, Name: kind, Make: func(int) *exec.Cmd {
		return exec.Command(args[0], args[1:]...) //nolint:noctx // the test's
	}}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		p.Stop(ctx)
	})
	return p
}
