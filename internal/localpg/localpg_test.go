//go:build unix && !aix && !solaris

package localpg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestStart_ServesATemporaryDirectoryUntilClose(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	server := mustStart(t, "")
	dir := filepath.Dir(server.socketDir)
	query(t, server, keepSQL)
	if got, want := query(t, server, readSQL), "still here"; got != want {
		t.Fatalf("word = %q, want %q", got, want)
	}
	pid := pidOf(t, dir)
	first, second := server.Close(), server.Close()
	if first != nil || second != nil {
		t.Fatalf("Close() = %v, then %v, want nil twice", first, second)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat(%s) = %v after Close, want it removed", dir, err)
	}
	wantGone(t, pid)
}

func TestStart_RemovesATemporaryDirectoryWithItsLastUse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	config := Config{
		Dir: filepath.Join(persistentDir(t), "run"), Temporary: true,
		Settings: map[string]string{"fsync": "off"},
	}
	var uses []*Server
	for range 2 {
		use, err := Start(testContext(t), config)
		if err != nil {
			t.Fatal(err)
		}
		uses = append(uses, use)
	}
	pid := pidOf(t, config.Dir)
	mustClose(t, uses[0])
	query(t, uses[1], keepSQL)
	mustClose(t, uses[1])
	if _, err := os.Stat(config.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat(%s) = %v after the last Close, want it removed", config.Dir, err)
	}
	wantGone(t, pid)
}

func TestStart_KeepsDataInItsDirectory(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	server := mustStart(t, dir)
	query(t, server, keepSQL)
	mustClose(t, server)
	wantNoServer(t, dir)

	if got, want := query(t, mustStart(t, dir), readSQL), "still here"; got != want {
		t.Fatalf("word after a restart = %q, want %q", got, want)
	}
}

func TestStart_JoinsARunningServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	first := mustStart(t, dir)
	pid := pidOf(t, dir)
	second := mustStart(t, dir)
	if got := pidOf(t, dir); got != pid {
		t.Fatalf("process after a second Start = %d, want %d", got, pid)
	}
	query(t, first, keepSQL)
	mustClose(t, first)
	if got, want := query(t, second, readSQL), "still here"; got != want {
		t.Fatalf("word = %q after the first user closed, want %q", got, want)
	}
	mustClose(t, second)
	wantNoServer(t, dir)
	wantGone(t, pid)
}

func TestJoin_StartsNoServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	missing := filepath.Join(dir, "none")
	wantNotRunning := func(dir string) {
		t.Helper()
		if _, err := Join(testContext(t), dir); !errors.Is(err, ErrNotRunning) {
			t.Errorf("Join(%s) = %v, want that no server is running", dir, err)
		}
	}
	wantNotRunning(missing)
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat(%s) = %v, want it not created", missing, err)
	}
	first := mustStart(t, dir)
	query(t, first, keepSQL)
	second, err := Join(testContext(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, first)
	if got, want := query(t, second, readSQL), "still here"; got != want {
		t.Errorf("word = %q after the first user closed, want %q", got, want)
	}
	mustClose(t, second)
	wantNoServer(t, dir)
	wantNotRunning(dir)
	wantNoServer(t, dir)
}

func TestStart_SharesOneServerAmongConcurrentCallers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	ctx := testContext(t)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			server, err := Start(ctx, Config{Dir: dir, Settings: quick})
			if err != nil {
				t.Error(err)
				return
			}
			if err := connect(ctx, server); err != nil {
				t.Error(err)
			}
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	wantNoServer(t, dir)
}

func TestStart_JoinsTheServerOfAKilledProcess(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	killed := startHelper(t, dir)
	pid := pidOf(t, dir)
	killed.kill(t)

	server := mustStart(t, dir)
	if got := pidOf(t, dir); got != pid {
		t.Fatalf("process after Start = %d, want %d, which the killed process left", got, pid)
	}
	if err := connect(testContext(t), server); err != nil {
		t.Fatal(err)
	}
	mustClose(t, server)
	wantNoServer(t, dir)
	wantGone(t, pid)
}

func TestClose_LeavesTheServerToAnotherProcess(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	other := startHelper(t, dir)
	mustClose(t, mustStart(t, dir))
	if err := other.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"interrupted, and the server still answers", "closed"} {
		if got := other.line(t); got != want {
			t.Fatalf("helper says %q, want %q", got, want)
		}
	}
	if err := other.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	wantNoServer(t, dir)
}

func TestClose_StopsTheServerCleanlyAfterCtrlC(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	program := startHelper(t, dir)
	pid := pidOf(t, dir)
	// A terminal sends the signal to the whole process group.
	if err := syscall.Kill(-program.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"interrupted, and the server still answers", "closed"} {
		if got := program.line(t); got != want {
			t.Fatalf("helper says %q, want %q", got, want)
		}
	}
	if err := program.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	wantNoServer(t, dir)
	wantGone(t, pid)
	log, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	if want := "database system is shut down"; !strings.Contains(string(log), want) {
		t.Fatalf("log = %s, want %q in it", log, want)
	}
}

func TestStart_RemovesTemporaryServersOfKilledProcesses(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	killed := startHelper(t, "")
	pid := pidOf(t, killed.dir)
	killed.kill(t)

	mustStart(t, "")
	wantGone(t, pid)
	// Another test may have been the one that found it, and may be at it still.
	err := poll(testContext(t), func() (bool, error) {
		_, err := os.Stat(killed.dir)
		return errors.Is(err, fs.ErrNotExist), nil
	})
	if err != nil {
		t.Fatalf("%s exists, want it removed: %v", killed.dir, err)
	}
}

func TestStart_ReplacesAServerThatWasKilled(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	first := mustStart(t, dir)
	query(t, first, keepSQL)
	pid := pidOf(t, dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got, want := query(t, mustStart(t, dir), readSQL), "still here"; got != want {
		t.Fatalf("word after a crash = %q, want %q", got, want)
	}
	mustClose(t, first)
}

func TestStart_AppliesSettings(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := testContext(t)
	settings := map[string]string{"fsync": "off", "TimeZone": "Etc/GMT+5"}
	server, err := Start(ctx, Config{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, server)
	conn, err := pgconn.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if got, want := conn.ParameterStatus("TimeZone"), "Etc/GMT+5"; got != want {
		t.Fatalf("TimeZone = %q, want %q", got, want)
	}
}

func TestStart_RefusesToListenElsewhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"listen_addresses", "PORT", "unix_socket_directories"} {
		_, err := Start(testContext(t), Config{Settings: map[string]string{name: "1"}})
		want := "setting " + strings.ToLower(name) + " cannot be changed"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("Start with setting %s = %v, want %q", name, err, want)
		}
	}
}

func TestStart_ReportsTheLogOfAServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	settings := map[string]string{"fsync": "off", "work_mem": "a lot"}
	_, err := Start(testContext(t), Config{Dir: dir, Settings: settings})
	for _, want := range []string{"the server exited at once", `parameter "work_mem"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("Start = %v, want %q in it", err, want)
		}
	}
	wantNoServer(t, dir)
	mustStart(t, dir) // The directory is as good as before.
}

func TestServer_URLEscapesTheDatabase(t *testing.T) {
	t.Parallel()
	server := &Server{socketDir: "/a dir/with ?&"}
	config, err := pgconn.ParseConfig(server.URL("my db/?x"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := config.Database, "my db/?x"; got != want {
		t.Errorf("database = %q, want %q", got, want)
	}
	if got, want := config.Host, "/a dir/with ?&"; got != want {
		t.Errorf("host = %q, want %q", got, want)
	}
	if got, want := config.User, "stint"; got != want {
		t.Errorf("user = %q, want %q", got, want)
	}
}

func TestStart_LeavesNothingWhenItsContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	dir := persistentDir(t)
	if _, err := Start(ctx, Config{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Start = %v, want %v", err, context.Canceled)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat(%s) = %v, want nothing created", dir, err)
	}
}

func TestStart_LeavesNoProcessWhenCancelledHalfWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	installed := realPrograms(t)
	tests := map[string]struct{ initdb, postgres string }{
		"in initdb": {"echo > %; exec sleep 600", "exit 1"},
		// Its own child keeps running for a while after initdb itself has ended.
		"in a child of initdb": {"sleep 1 & echo > %; exec sleep 600", "exit 1"},
		"before postgres serves": {
			`exec "` + installed.path("initdb") + `" "$@"`,
			"echo > %; exec sleep 600",
		},
		"while postgres starts": {
			`exec "` + installed.path("initdb") + `" "$@"`,
			`echo > %; exec "` + installed.path("postgres") + `" "$@"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe, wait := fifo(t)
			programs := fakePrograms(t, installed.major,
				strings.ReplaceAll(test.initdb, "%", pipe),
				strings.ReplaceAll(test.postgres, "%", pipe))
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			go func() {
				wait()
				cancel()
			}()
			dir := persistentDir(t)
			find := finder{getenv: environ(binEnv + "=" + programs)}
			server, err := startWith(ctx, Config{Dir: dir, Settings: quick}, find)
			if err == nil {
				mustClose(t, server)
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("Start = %v, want %v", err, context.Canceled)
			}
			wantNoServer(t, dir)
			mustStart(t, dir)
		})
	}
}
