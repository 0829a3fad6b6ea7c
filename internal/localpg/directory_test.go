//go:build unix && !aix && !solaris

package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestStart_ServesADirectoryWhosePathIsTooLongForASocket(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := filepath.Join(persistentDir(t), strings.Repeat("long", 20), strings.Repeat("long", 20))
	server := mustStart(t, dir)
	if filepath.Dir(server.socketDir) == dir {
		t.Fatalf("socket in %s, want it at a shorter path", server.socketDir)
	}
	// Both users find the same socket.
	if got, want := mustStart(t, dir).socketDir, server.socketDir; got != want {
		t.Fatalf("socket of the second user in %s, want %s", got, want)
	}
	info, err := os.Stat(server.socketDir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Fatalf("mode of the socket directory = %o, want 700", got)
	}
}

func TestClose_RemovesASocketDirectoryOutsideOfTheDirectory(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	server := mustStart(t, filepath.Join(persistentDir(t), "a,comma"))
	mustClose(t, server)
	if _, err := os.Stat(server.socketDir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat(%s) = %v after Close, want it removed", server.socketDir, err)
	}
}

func TestStart_ServesADirectoryWithAnAwkwardName(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	mustStart(t, filepath.Join(persistentDir(t), `a "quoted" name & 'more' %41`))
}

func TestMakeSocketDir_RefusesADirectoryThatOthersCanEnter(t *testing.T) {
	t.Parallel()
	dir := persistentDir(t)
	s, err := openServerDir(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.path(socketName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.account.own(s.path(socketName)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.makeSocketDir(); err != nil {
		t.Fatalf("makeSocketDir with a private directory = %v, want nil", err)
	}
	if err := os.Chmod(s.path(socketName), 0o711); err != nil {
		t.Fatal(err)
	}
	if _, err := s.makeSocketDir(); err == nil {
		t.Fatal("makeSocketDir with a directory of mode 0711 = nil, want an error")
	}
}

func TestStart_StartsOverWhereInitdbWasCutShort(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	if err := os.MkdirAll(filepath.Join(dir, halfMadeName, "base"), 0o755); err != nil {
		t.Fatal(err)
	}
	version := filepath.Join(dir, halfMadeName, "PG_VERSION")
	if err := os.WriteFile(version, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustStart(t, dir)
	if _, err := os.Stat(filepath.Join(dir, halfMadeName)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat(%s) = %v, want it removed", halfMadeName, err)
	}
}

func TestStart_RefusesFilesThatAreNoDatabase(t *testing.T) {
	t.Parallel()
	dir := persistentDir(t)
	if err := os.MkdirAll(filepath.Join(dir, dataName), 0o755); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(dir, dataName, "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(testContext(t), Config{Dir: dir})
	if want := "is no database of PostgreSQL"; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("Start = %v, want %q in it", err, want)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Fatalf("Stat = %v, want the file kept", err)
	}
}

func TestStart_ReportsTheLogOfDamagedData(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	mustClose(t, mustStart(t, dir))
	if err := os.Remove(filepath.Join(dir, dataName, "global", "pg_control")); err != nil {
		t.Fatal(err)
	}
	_, err := Start(testContext(t), Config{Dir: dir, Settings: quick})
	for _, want := range []string{"the server exited at once", "pg_control"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("Start = %v, want %q in it", err, want)
		}
	}
}

func TestStart_IsNotFooledByAProcessNumberUsedAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	mustClose(t, mustStart(t, dir))
	s := serverDirOf(t, dir)
	stale := fmt.Sprintf("%d\n%s\n1700000000\n%d\n%s\n\n 1 1\nready   \n",
		bystander(t, s.account), s.path(dataName), port, s.path(socketName))
	path := filepath.Join(s.path(dataName), "postmaster.pid")
	if err := os.WriteFile(path, []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.account.own(path); err != nil {
		t.Fatal(err)
	}
	if err := connect(testContext(t), mustStart(t, dir)); err != nil {
		t.Fatal(err)
	}
}

func TestStart_RefusesDataThatAServerStartedByHandUses(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	mustClose(t, mustStart(t, dir))
	s := serverDirOf(t, dir)
	cmd := exec.CommandContext(t.Context(), realPrograms(t).path("postgres"),
		"-D", s.path(dataName), "-c", "listen_addresses=", "-k", s.path(socketName), "-p", "5433")
	cmd.SysProcAttr = s.account.attributes()
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	ctx := testContext(t)
	if err := poll(ctx, func() (bool, error) { return s.answers(ctx) }); err != nil {
		t.Fatal(err)
	}
	_, err := Start(ctx, Config{Dir: dir})
	if want := "a server that was started otherwise"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Fatalf("Start = %v, want %q in it", err, want)
	}
	if err := ping(ctx, pidFile{socketDir: s.path(socketName), port: 5433}); err != nil {
		t.Fatalf("the other server = %v, want it untouched", err)
	}
}

func TestStart_NamesTheDirectoryThatTheServerCannotEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has to run the server as another account")
	}
	closed := persistentDir(t)
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(testContext(t), Config{Dir: filepath.Join(closed, "server")})
	if want := "cannot enter " + closed + ":"; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("Start = %v, want %q in it", err, want)
	}
}

func TestStart_TakesOverAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mustStart(t, dir)
}

func TestDataDir_FollowsTheConventionsOfTheSystem(t *testing.T) {
	t.Parallel()
	open := persistentDir(t)
	if err := makeOpenDirs(open); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(open, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	const linux, share = "linux", "/.local/share/stint/dev"
	tests := map[string]struct {
		env  []string
		goos string
		root bool
		want string
	}{
		"home":          {[]string{"HOME=/h"}, linux, false, "/h" + share},
		"xdg":           {[]string{"HOME=/h", "XDG_DATA_HOME=/x"}, linux, false, "/x/stint/dev"},
		"xdg alone":     {[]string{"XDG_DATA_HOME=/x"}, linux, false, "/x/stint/dev"},
		"xdg relative":  {[]string{"HOME=/h", "XDG_DATA_HOME=x"}, linux, false, "/h" + share},
		"root, open":    {[]string{"HOME=" + open}, linux, true, open + share},
		"root, closed":  {[]string{"HOME=" + closed}, linux, true, "/var/lib/stint/dev"},
		"root, no home": {nil, linux, true, "/var/lib/stint/dev"},
		"user, closed":  {[]string{"HOME=" + closed}, linux, false, closed + share},
		"mac": {
			[]string{"HOME=/h", "XDG_DATA_HOME=/x"},
			"darwin", false,
			"/h/Library/Application Support/stint/dev",
		},
	}
	for name, test := range tests {
		p := places{getenv: environ(test.env...), goos: test.goos, root: test.root}
		if got, err := p.data("dev"); err != nil || got != test.want {
			t.Errorf("%s: data(dev) = %q, %v, want %q", name, got, err, test.want)
		}
	}
	if got, err := (places{getenv: environ()}).data("dev"); err == nil {
		t.Errorf("data(dev) without a home = %q, want an error", got)
	}
}

func TestDataDir_RefusesNamesThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "a/b", "/a", "a/", "../a"} {
		if got, err := DataDir(name); err == nil {
			t.Errorf("DataDir(%q) = %q, want an error", name, got)
		}
	}
}
