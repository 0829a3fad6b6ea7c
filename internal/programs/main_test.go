//go:build unix

package programs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/worker"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func newDirectory(t *testing.T, scripts map[string]string) *Directory {
	t.Helper()
	d, err := Open(processes.Write(t, scripts))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newStore(t *testing.T) *stint.Store {
	t.Helper()
	store, err := stint.New(testdb.New(t), stint.Options{PollInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		found, err := store.Check(ctx)
		if err = errors.Join(err, store.Close(ctx)); err != nil || len(found) > 0 {
			t.Errorf("at the end: %v, %v", found, err)
		}
	})
	return store
}

// start has the programs performed until the test ends or stop is called, which returns what Run
// returned.
func start(
	t *testing.T, store *stint.Store, d *Directory, options ...worker.HandlerOption,
) (stop func() error) {
	t.Helper()
	w, err := worker.New(store, worker.Options{
		Concurrency: 4, StopGrace: time.Millisecond, Retry: worker.Retry{Base: time.Microsecond},
	}, d.Handlers(options...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		err = w.Run(ctx)
		close(ended)
	}()
	stop = func() error {
		cancel()
		<-ended
		d.Close()
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func insert(t *testing.T, store *stint.Store, tasks ...stint.Task) {
	t.Helper()
	for i := range tasks {
		tasks[i].PostResult = true
	}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
}

// finish waits until a task has finished.
func finish(t *testing.T, store *stint.Store, id stint.TaskID) stint.TaskInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	info, err := store.WaitForTask(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// perform inserts one task and waits until the programs have finished it.
func perform(t *testing.T, d *Directory, task stint.Task) stint.TaskInfo {
	t.Helper()
	store := newStore(t)
	insert(t, store, task)
	start(t, store, d)
	return finish(t, store, task.ID)
}

// A lifeline is a named pipe, which programs open as $LIFELINE.
type lifeline string

func newLifeline(t *testing.T) lifeline {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lifeline")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return lifeline(path)
}

// open waits until a program has opened the pipe.
func (l lifeline) open(t *testing.T) *bufio.Reader {
	t.Helper()
	file, err := os.Open(string(l))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return bufio.NewReader(file)
}

// await waits until a program has written a line.
func await(t *testing.T, line *bufio.Reader, want string) {
	t.Helper()
	if got, err := line.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("the program says %q, %v, want %q", got, err, want)
	}
}

// ends waits until nobody has the pipe open any more, and wants this written before.
func ends(t *testing.T, line *bufio.Reader, want string) {
	t.Helper()
	if got, err := io.ReadAll(line); err != nil || string(got) != want {
		t.Errorf("last words = %q, %v, want %q", got, err, want)
	}
}
