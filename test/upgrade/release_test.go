//go:build unix

package upgrade_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/releases"
	"github.com/stint-tasks/stint/internal/testing/testservice"
)

// oldCommit is the last for version 1 of the schema, and stands for a release.
const oldCommit = "03fd0db35a579b4fc9ef62c88fd06090b1bf31b6"

// dir is where the commands are built. It goes with the test process.
var dir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	var err error
	if dir, err = os.MkdirTemp("", "stint-releases-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return testdb.Run(m)
}

var (
	buildOld = sync.OnceValues(func() (string, error) {
		ctx, source, binary := context.Background(), sourceOfOld(), filepath.Join(dir, "old")
		if err := releases.Extract(ctx, oldCommit, source); err != nil {
			return "", err
		}
		// With -trimpath, go finds in its cache what it has built in another directory.
		return binary, releases.Build(ctx, source, binary, "-trimpath")
	})
	buildNew = sync.OnceValues(func() (string, error) {
		ctx, binary := context.Background(), filepath.Join(dir, "new")
		root, err := releases.Output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
		if err != nil {
			return "", err
		}
		return binary, releases.Build(ctx, root, binary)
	})
)

// sourceOfOld is where the files of the old release are, once it is built.
func sourceOfOld() string { return filepath.Join(dir, "source") }

// A release is the command of one on a database.
type release struct {
	name, binary, url string
}

func oldRelease(t *testing.T, pool *pgxpool.Pool) release {
	t.Helper()
	binary, err := buildOld()
	wantErr(t, "the build of the old release", err, nil)
	return release{name: "old", binary: binary, url: testdb.URL(pool)}
}

func newRelease(t *testing.T, pool *pgxpool.Pool) release {
	t.Helper()
	binary, err := buildNew()
	wantErr(t, "the build of the new release", err, nil)
	return release{name: "new", binary: binary, url: testdb.URL(pool)}
}

func (r release) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.binary, args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "STINT_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "STINT_DATABASE_URL="+r.url, "NO_COLOR=1", "RELEASE="+r.name)
	return cmd
}

// run runs the command to its end, and returns what it printed and its exit code. One that does
// not end is killed.
func (r release) run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	cmd := r.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s stint %q: %v", r.name, args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must is run for a command that succeeds.
func (r release) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, code := r.run(t, stdin, args...)
	if code != 0 {
		t.Fatalf("%s stint %q: exit code %d\n%s%s", r.name, args, code, stdout, stderr)
	}
	return stdout
}

// A process is a command at work.
type process struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	printed processes.Buffer
	ended   chan struct{}
}

// start starts the command, which is ended at the end of the test at the latest.
func (r release) start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, name: r.name + " stint " + args[0], ended: make(chan struct{}),
		cmd: r.command(context.WithoutCancel(t.Context()), args...),
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.printed, &p.printed
	wantErr(t, "Start", p.cmd.Start(), nil)
	go func() {
		_ = p.cmd.Wait() // the exit code says it all
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, or the test has failed
		<-p.ended
		if t.Failed() {
			t.Logf("%s printed\n%s", p.name, p.printed.String())
		}
	})
	return p
}

func (p *process) says(part string) {
	p.t.Helper()
	eventually(p.t, p.name+" says "+part, func() bool {
		return strings.Contains(p.printed.String(), part)
	})
}

// kill ends the process on the spot.
func (p *process) kill() {
	p.t.Helper()
	wantErr(p.t, "Kill", p.cmd.Process.Kill(), nil)
	<-p.ended
}

// stop ends the process as SIGTERM does.
func (p *process) stop() {
	p.t.Helper()
	wantErr(p.t, "Signal", p.cmd.Process.Signal(syscall.SIGTERM), nil)
	p.wantExit(0)
}

func (p *process) wantExit(code int) {
	p.t.Helper()
	<-p.ended
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%s: exit code %d, want %d\n%s", p.name, got, code, p.printed.String())
	}
}

// serve starts a service of the release, and returns it with a client of it: the verbs of the
// release.
func (r release) serve(t *testing.T) (*process, *client.Client) {
	t.Helper()
	p := r.start(t, nil, "serve", "--listen", "127.0.0.1:0")
	p.says("msg=serving")
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(p.printed.String())[1]
	return p, testservice.Client(t, address, client.Options{})
}

// wantRefused runs the command, which must refuse the version of the schema, and say why.
func (r release) wantRefused(t *testing.T, part string, args ...string) {
	t.Helper()
	const exitSchema = 5
	stdout, stderr, code := r.run(t, "", args...)
	if code != exitSchema || !strings.Contains(stderr, part) {
		t.Errorf("%s stint %q: exit code %d, want %d and %q\n%s%s", r.name, args, code, exitSchema,
			part, stdout, stderr)
	}
}
