//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// programEnv makes the test binary be the program, so that the tests see what its users see, and
// the race detector sees the program.
const programEnv = "STINT_TEST_EXPORT_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		return
	}
	testdb.Main(m)
}

func TestExport_CopiesAnAwkwardTree(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	from, to := awkwardTree(t), filepath.Join(t.TempDir(), "new", "to")
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "read only"), 0o700) })
	first := db.export(t, from, to)
	first.wantExit(t, exitCopied)
	first.wantOutput(t, "11 files copied",
		"skipped, since it is neither a file nor a link: \"pipe\"")
	want := snapshot(t, from)
	delete(want, "pipe")
	wantSame(t, snapshot(t, to), want)

	before := inodes(t, to)
	second := db.export(t, from, to)
	second.wantExit(t, exitCopied)
	second.wantOutput(t, "0 files copied", "11 were copied before")
	before.wantUntouched(t)
	wantSame(t, snapshot(t, to), want)
}

func TestExport_CopiesAnEmptyTree(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	to := filepath.Join(t.TempDir(), "to")
	run := newDatabase(t).export(t, t.TempDir(), to)
	run.wantExit(t, exitCopied)
	wantSame(t, snapshot(t, to), map[string]string{})
}

func TestExport_CopiesWhatHasChangedSince(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	from, to := numberedFiles(t, 10), t.TempDir()
	db.export(t, from, to).wantExit(t, exitCopied)

	write(t, filepath.Join(from, "0003"), "changed", 0o600)
	write(t, filepath.Join(from, "new"), "new", 0o600)
	if err := os.Remove(filepath.Join(to, "0007")); err != nil {
		t.Fatal(err)
	}
	again := db.export(t, from, to)
	again.wantExit(t, exitCopied)
	again.wantOutput(t, "3 files copied", "8 were copied before")
	wantSame(t, snapshot(t, to), snapshot(t, from))
}

func TestExport_RefusesBadUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "", 0o600)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	nested := "must not be the same or inside one another"
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing":      {nil, "-from and -to are needed"},
		"unknown flag": {[]string{"-frm", dir}, "-frm"},
		"argument": {
			[]string{"-from", dir, "-to", other, "more"}, `unexpected argument "more"`,
		},
		"no workers":     {[]string{"-from", dir, "-to", other, "-workers", "0"}, "-workers"},
		"short lease":    {[]string{"-from", dir, "-to", other, "-lease", "1ms"}, "-lease"},
		"missing -from":  {[]string{"-from", dir + "/none", "-to", other}, "no such file"},
		"file as -from":  {[]string{"-from", file, "-to", other}, "is not a directory"},
		"file as -to":    {[]string{"-from", other, "-to", file}, "is not a directory"},
		"below a file":   {[]string{"-from", other, "-to", file + "/to"}, "not a directory"},
		"the same":       {[]string{"-from", dir, "-to", dir + "/."}, nested},
		"inside":         {[]string{"-from", dir, "-to", dir + "/a/b"}, nested},
		"outside":        {[]string{"-from", dir, "-to", filepath.Dir(dir)}, nested},
		"inside by link": {[]string{"-from", dir, "-to", link + "/a"}, nested},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A database that does not exist: it is not asked.
			args := append([]string{"-database-url", "postgres://127.0.0.1:1/none"}, test.args...)
			run := start(t, nil, args...)
			run.wantExit(t, exitUsage)
			run.wantOutput(t, test.want)
		})
	}
	if _, err := os.Lstat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lstat(-to) = %v, want it not made", err)
	}
}

func TestExport_ReportsADatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	run := start(t, nil, "-database-url", "postgres://127.0.0.1:1/none",
		"-from", t.TempDir(), "-to", t.TempDir())
	run.wantExit(t, exitIncomplete)
	run.wantOutput(t, "127.0.0.1:1")
}

func TestExport_ListsWhatItCannotCopy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	from, to := numberedFiles(t, 40), t.TempDir()
	blocking := filepath.Join(to, "0005", "in the way")
	if err := os.MkdirAll(blocking, 0o700); err != nil {
		t.Fatal(err)
	}
	unreadable := os.Geteuid() != 0 // Nothing is unreadable to root.
	if unreadable {
		if err := os.Chmod(filepath.Join(from, "0006"), 0); err != nil {
			t.Fatal(err)
		}
	}

	gate := db.closeGate(t)
	run := db.start(t, from, to)
	db.waitForSession(t, "wait_event_type = 'Lock'") // It knows the tree, and has copied nothing.
	if err := os.Remove(filepath.Join(from, "0004")); err != nil {
		t.Fatal(err)
	}
	gate.open(t)
	run.wantExit(t, exitIncomplete)
	for _, name := range []string{"0004", "0005", "0006"}[:2+btoi(unreadable)] {
		run.wantOutput(t, fmt.Sprintf("not copied: %q: aborted (tries) after 5 tries: ", name))
	}
	run.wantOutput(t, "no such file", "files copied")

	// The next run tries again what was aborted.
	if err := os.RemoveAll(filepath.Dir(blocking)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(from, "0006"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := db.export(t, from, to)
	again.wantExit(t, exitCopied)
	again.wantOutput(t, fmt.Sprintf("%d were copied before", 38-btoi(unreadable)))
	wantSame(t, snapshot(t, to), snapshot(t, from))
}

func TestExport_ListsADirectoryThatItCannotRead(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("nothing is unreadable to root")
	}
	from := numberedFiles(t, 3)
	closed := filepath.Join(from, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	run := newDatabase(t).export(t, from, t.TempDir())
	run.wantExit(t, exitIncomplete)
	run.wantOutput(t, "3 files copied", `not copied: "closed": `)
}

func TestExport_DoesNotFollowLinksOutOfTheDestination(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(from, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(from, "dir", "file"), "x", 0o600)
	if err := os.Symlink(outside, filepath.Join(to, "dir")); err != nil {
		t.Fatal(err)
	}
	run := newDatabase(t).export(t, from, to)
	run.wantExit(t, exitIncomplete)
	run.wantOutput(t, `"dir" is a directory here and something else there`)
	wantSame(t, snapshot(t, outside), map[string]string{})
}

// What was returned before the kill is not copied again; what was owned is, once its lease ends.
func TestExport_GoesOnAfterItWasKilled(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const files = 1500
	db := newDatabase(t)
	from, to := numberedFiles(t, files), t.TempDir()
	args := []string{"-workers", "2", "-lease", "2s"}
	gate := db.closeGate(t)
	killed := db.start(t, from, to, args...)
	gate.stepUntil(t, func() bool {
		return db.count(t, stint.StateCompleted) >= 100 && db.count(t, stint.StateInProgress) > 0
	})
	killed.signal(t, syscall.SIGKILL)
	killed.wait(t)
	gate.open(t)
	db.waitForNoSession(t) // What the process had sent before it was killed takes effect.

	completed, owned := db.list(t, stint.StateCompleted), db.list(t, stint.StateInProgress)
	if len(completed) == 0 || len(completed) == files {
		t.Fatalf("%d of %d files were copied before the kill, want some", len(completed), files)
	}
	before := inodes(t, to)
	for path := range before {
		if _, ok := completed[newJob(from, to).id(path)]; !ok {
			delete(before, path)
		}
	}
	if len(before) != len(completed) {
		t.Fatalf("%d tasks completed, %d of their files are there", len(completed), len(before))
	}

	write(t, filepath.Join(partsOf(t, to), "half-made"), "what a kill may leave", 0o600)
	second := db.export(t, from, to, args...)
	second.wantExit(t, exitCopied)
	second.wantOutput(t, grouped(len(completed))+" were copied before")
	wantSame(t, snapshot(t, to), snapshot(t, from))
	before.wantUntouched(t)
	after := db.list(t, stint.StateCompleted)
	if len(after) != files {
		t.Errorf("%d tasks are completed, want %d", len(after), files)
	}
	for id, info := range completed {
		if got := after[id]; got.Tries != 1 || !got.FinishedAt.Equal(info.FinishedAt) {
			t.Errorf("task %s: %d tries, finished at %v; want it as before the kill, 1 try, %v",
				id, got.Tries, got.FinishedAt, info.FinishedAt)
		}
	}
	for id := range owned {
		if got := after[id].Tries; got != 2 {
			t.Errorf("task %s, owned at the kill, had %d tries, want 2", id, got)
		}
	}
}

func TestExport_GivesBackItsTasksAtCtrlC(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const files = 1500
	db := newDatabase(t)
	from, to := numberedFiles(t, files), t.TempDir()
	gate := db.closeGate(t)
	run := db.start(t, from, to, "-workers", "2")
	gate.stepUntil(t, func() bool { return db.count(t, stint.StateCompleted) >= 100 })
	run.signal(t, syscall.SIGINT)
	run.waitForOutput(t, "finishing the files under way") // The program knows.
	gate.open(t)
	run.wantExit(t, exitInterrupted)
	run.wantOutput(t, "the same command goes on from here", "files are still to be copied")

	completed, ready := db.list(t, stint.StateCompleted), db.list(t, stint.StateReady)
	if len(completed) == files || len(completed)+len(ready) != files {
		t.Errorf("%d tasks completed and %d ready, want %d together and some ready",
			len(completed), len(ready), files)
	}
	for id, info := range ready {
		if info.Tries != 0 {
			t.Errorf("task %s, which was not begun, has had %d tries", id, info.Tries)
		}
	}
	again := db.export(t, from, to)
	again.wantExit(t, exitCopied)
	again.wantOutput(t, grouped(len(ready))+" files copied", " 0 retries")
	wantSame(t, snapshot(t, to), snapshot(t, from))
}

func TestExport_TwoAtOnceShareTheWork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const files = 1500
	db := newDatabase(t)
	from, to := numberedFiles(t, files), t.TempDir()
	one, other := db.start(t, from, to), db.start(t, from, to)
	one.wantExit(t, exitCopied)
	other.wantExit(t, exitCopied)
	wantSame(t, snapshot(t, to), snapshot(t, from))
	for id, info := range db.list(t, stint.StateCompleted) {
		if info.Tries != 1 {
			t.Errorf("task %s had %d tries, want 1", id, info.Tries)
		}
	}
}

// The program ends its own server however it is ended, or, after a kill, the next time.
func TestExport_LeavesNoServerBehind(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	data := openTempDir(t)
	env := []string{"XDG_DATA_HOME=" + data, "HOME=" + data}
	servers := func() []string {
		var found []string
		err := filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
			if filepath.Base(path) == "postmaster.pid" {
				found = append(found, path)
			}
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return nil // The server works in there.
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	// A directory where a file is to go keeps each run at work for the seconds of its five tries.
	from, to := numberedFiles(t, 20), t.TempDir()
	blocking := filepath.Join(to, "0005", "in the way")
	if err := os.MkdirAll(blocking, 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"-from", from, "-to", to, "-lease", "2s"}

	killed := start(t, env, args...)
	killed.waitForOutput(t, "20 files to copy")
	killed.signal(t, syscall.SIGKILL)
	killed.wait(t)
	if len(servers()) != 1 {
		t.Errorf("servers after SIGKILL: %q, want one, to be found by the next run", servers())
	}
	interrupted := start(t, env, args...)
	interrupted.waitForOutput(t, "files to copy")
	interrupted.signal(t, syscall.SIGINT)
	interrupted.wantExit(t, exitInterrupted)
	if len(servers()) != 0 {
		t.Errorf("servers after Ctrl-C: %q, want none", servers())
	}
	if err := os.RemoveAll(filepath.Dir(blocking)); err != nil {
		t.Fatal(err)
	}
	last := start(t, env, args...)
	last.wantExit(t, exitCopied)
	if len(servers()) != 0 {
		t.Errorf("servers at the end: %q, want none", servers())
	}
	wantSame(t, snapshot(t, to), snapshot(t, from))
}

func TestWorker_ReleasesWhatItHasNotBegun(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	job := newJob("/from", "/to")
	tasks := []stint.Task{job.task("a"), job.task("b"), job.task("c")}
	if err := db.store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	w := worker{
		store: db.store, ledger: newLedger(), actor: "worker",
		actions: []string{job.action}, lease: leaseInTests,
	}
	owned, err := w.store.OwnTasks(t.Context(), w.actor, len(tasks), w.actions, w.lease)
	if err != nil || len(owned) != len(tasks) {
		t.Fatalf("OwnTasks = %d tasks, %v; want %d", len(owned), err, len(tasks))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.perform(ctx, owned); err != nil {
		t.Fatalf("perform = %v", err)
	}
	for id, info := range db.list(t, stint.StateReady) {
		if info.Tries != 0 {
			t.Errorf("task %s has %d tries, want 0", id, info.Tries)
		}
	}
	if n := db.count(t, stint.StateReady); n != len(tasks) {
		t.Errorf("%d tasks are ready, want %d", n, len(tasks))
	}
}

func TestAdd_LeavesOutWhatAnotherRunHasAdded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	job := newJob("/from", "/to")
	tasks := []stint.Task{job.task("a"), job.task("b"), job.task("c")}
	if err := db.store.InsertTasks(t.Context(), tasks[1:2]); err != nil {
		t.Fatal(err)
	}
	if err := add(t.Context(), db.store.InsertTasks, slices.Clone(tasks)); err != nil {
		t.Fatalf("add by InsertTasks = %v", err)
	}
	if n := db.count(t, stint.StateReady); n != len(tasks) {
		t.Errorf("%d tasks are ready, want %d", n, len(tasks))
	}
	actions := []string{job.action}
	owned, err := db.store.OwnTasks(t.Context(), "worker", 1, actions, leaseInTests)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %d tasks, %v; want 1", len(owned), err)
	}
	if err := add(t.Context(), db.store.ReplaceTasks, slices.Clone(tasks)); err != nil {
		t.Fatalf("add by ReplaceTasks = %v", err)
	}
	if n := db.count(t, stint.StateReady); n != len(tasks)-1 {
		t.Errorf("%d tasks are ready, want %d", n, len(tasks)-1)
	}
	bad := []stint.Task{{ID: "x"}}
	err = add(t.Context(), db.store.InsertTasks, bad)
	if !errors.Is(err, stint.ErrInvalidArgument) {
		t.Errorf("add of a bad task = %v, want %v", err, stint.ErrInvalidArgument)
	}
}

func TestLedger_SaysHowFarItIs(t *testing.T) {
	t.Parallel()
	l := newLedger()
	for _, id := range []stint.TaskID{"a", "b", "c"} {
		l.expect(id, 10_000_000)
	}
	now := l.start.Add(10 * time.Second)
	wantLine := func(want string) {
		t.Helper()
		if got := l.progress(now); got != want {
			t.Errorf("progress = %q, want %q", got, want)
		}
	}
	wantLine("0 of 3 files, 0.0 MB, 0 files/s")
	l.attempted(10_000_000, false)
	l.copied("a")
	l.copied("a") // Once is enough.
	wantLine("1 of 3 files, 10.0 MB, 0 files/s, 20s left")
	held := stint.TaskInfo{
		StatusCode: stint.StatusInProgress, Actor: "somebody else",
		LeaseUntil: now.Add(5 * time.Second),
	}
	l.enter([]stint.TaskInfo{held, held})
	wantLine("1 of 3 files, 10.0 MB; 2 leased to another process for 5s")
	l.enter([]stint.TaskInfo{
		{ID: "b", StatusCode: stint.StatusCompleted},
		{ID: "c", StatusCode: stint.StatusAborted, Body: []byte("c"), Tries: 5, Status: "bad"},
	})
	wantLine("2 of 3 files, 10.0 MB, 0 files/s, 0s left")
	if l.complete(&tree{}) {
		t.Error("complete with a task aborted")
	}
	if got, want := grouped(1_234_567)+grouped(1_000), "1,234,5671,000"; got != want {
		t.Errorf("grouped = %q, want %q", got, want)
	}
}

func TestJob_IDsAreValidAndDiffer(t *testing.T) {
	t.Parallel()
	job := newJob("/from", "/to")
	long := strings.Repeat("x", idBytesMax)
	paths := []string{"a", "a/b", "caf\xe9", "caf\xe8", long, long + "y", "/" + long}
	seen := map[stint.TaskID]string{newJob("/from", "/other").id("a"): "of another job"}
	for _, path := range paths {
		id := job.id(path)
		if other, ok := seen[id]; ok {
			t.Errorf("id(%q) = %q, like that %q", path, id, other)
		}
		seen[id] = path
		if len(id) > idBytesMax || strings.ToValidUTF8(string(id), "") != string(id) {
			t.Errorf("id(%q) = %q, want valid UTF-8 of at most %d bytes", path, id, idBytesMax)
		}
	}
}

// partsOf is the directory for what is not copied in full, which a killed run has left.
func partsOf(t *testing.T, to string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(to, ".stint-export-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("directories for parts: %q, %v; want one", found, err)
	}
	return found[0]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// start starts the program. It is killed at the end of the test at the latest.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), programEnv+"=1"), env...)
	return startProcess(t, cmd)
}
