package typescript_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	process "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/service"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A remote is a store, its service, and a program of the package that uses it.
type remote struct {
	pool    *pgxpool.Pool
	store   *stint.Store
	address string
	stop    func() error
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	build(t)
	r := &remote{pool: testdb.New(t)}
	var err error
	r.store, err = stint.New(r.pool, stint.Options{
		PollInterval: 20 * time.Millisecond, History: stint.HistoryOptions{Tries: 10},
	})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() {
		if err := r.store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	r.address, r.stop = testservice.Start(t, r.pool, r.store, service.Options{})
	return r
}

// run runs a program in the current directory, or in another one, and returns what it wrote.
func run(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	cmd := process.CommandContext(t.Context(), name, arguments...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s = %v\n%s", cmd, err, output)
	}
	return string(output)
}

// The tests of the package, which are in TypeScript, pass on a service.
// Proves G113, G211, G333.
func TestPackage_PassesItsTestsOnAService(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t)
	tlsAddress, certificate := startTLS(t, r.address)
	files, err := filepath.Glob("build/*.test.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := process.CommandContext(t.Context(), "node", append([]string{
		"--test", "--test-reporter=tap", "--test-timeout=120000", "--test-concurrency=5",
	}, files...)...) // they wait more than they work
	cmd.Env = append(os.Environ(), "STINT_SERVER="+r.address, "STINT_TLS_SERVER="+tlsAddress,
		"NODE_EXTRA_CA_CERTS="+certificate, "STINT_DATABASE="+r.database(t))
	output, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(output, []byte("tasks of a worker that is killed")) {
		t.Errorf("node --test = %v\n%s", err, output)
	}
	found, err := r.store.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// database makes the SQL functions in the database of the service, and returns its URL.
func (r *remote) database(t *testing.T) string {
	t.Helper()
	functions, err := migrations.Functions(migrations.DefaultSchema)
	if err == nil {
		_, err = r.pool.Exec(t.Context(), functions)
	}
	if err != nil {
		t.Fatal(err)
	}
	config := r.pool.Config().ConnConfig
	at := url.URL{
		Scheme: "postgres", Host: "localhost", Path: config.Database,
		User:     url.UserPassword(config.User, config.Password),
		RawQuery: url.Values{"host": {config.Host}, "port": {fmt.Sprint(config.Port)}}.Encode(),
	}
	return at.String()
}

func TestPackage_WorksInDeno(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t)
	const deno = "node_modules/.bin/deno"
	if err := process.CommandContext(t.Context(), deno, "--version").Run(); err != nil {
		testrun.Missing(t, "there is no Deno here: run npm ci in client/typescript")
	}
	said := run(t, ".", deno, "run", "--no-prompt", "--allow-net", "--allow-read", "build/deno.js",
		r.address)
	if said != "done\n" {
		t.Errorf("the program has written %q", said)
	}
}

// Proves G30, G211.
func TestWorker_GoesOnWhenAnotherServiceTakesThePlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, end := range map[string]func(r *remote, p *testservice.Proxy) error{
		"stopped": func(r *remote, _ *testservice.Proxy) error { return r.stop() },
		"cut off": func(_ *remote, p *testservice.Proxy) error { p.Cut(false); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t)
			proxy := testservice.NewProxy(t, strings.TrimPrefix(r.address, "http://"))
			cmd := process.CommandContext(t.Context(), "node", "build/program.js",
				proxy.Address(), "act", "3600", "3600")
			said := startProgram(t, cmd)
			said("runs")
			r.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true})
			said("began a")
			r.completes(t, "a")
			r.sees(t, "program")
			other, _ := testservice.Start(t, r.pool, r.store, service.Options{})
			proxy.Aim(strings.TrimPrefix(other, "http://"))
			if err := end(r, proxy); err != nil {
				t.Fatal(err)
			}
			r.insert(t, stint.Task{ID: "b", Action: "act", PostResult: true})
			said("began b")
			r.completes(t, "b")
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			said("stopping")
			said("ended")
			if err := cmd.Wait(); err != nil {
				t.Errorf("Wait = %v", err)
			}
		})
	}
}

func (r *remote) insert(t *testing.T, task stint.Task) {
	t.Helper()
	if err := r.store.InsertTasks(t.Context(), []stint.Task{task}); err != nil {
		t.Fatalf("InsertTasks = %v", err)
	}
}

// sees waits until a service attends an actor.
func (r *remote) sees(t *testing.T, actor stint.ActorID) {
	t.Helper()
	for {
		actors, err := r.store.ListActors(t.Context())
		if err != nil {
			t.Fatalf("ListActors = %v", err)
		}
		if slices.ContainsFunc(actors, func(a stint.ActorInfo) bool { return a.Actor == actor }) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// completes waits until a task has ended, and checks that it has been completed in its first try.
func (r *remote) completes(t *testing.T, id stint.TaskID) {
	t.Helper()
	done, err := r.store.WaitForTasks(t.Context(), []stint.TaskID{id})
	if err != nil || done[0].State != stint.StateCompleted || done[0].Tries != 1 {
		t.Fatalf("WaitForTasks = %+v, %v", done, err)
	}
}

// startProgram starts a program, and returns a function that waits for a line of its output.
func startProgram(t *testing.T, cmd *process.Cmd) (said func(line string)) {
	t.Helper()
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	return func(line string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != line {
			t.Fatalf("the program has written %q, %v, want %q", lines.Text(), lines.Err(), line)
		}
	}
}

// build compiles the package and its tests, once, with what npm ci has installed. Where all tests
// have to run, Node and that have to be there.
func build(t *testing.T) {
	t.Helper()
	const supported = "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"
	if err := process.CommandContext(t.Context(), "node", "-e", supported).Run(); err != nil {
		testrun.Missing(t, "there is no Node from 20 on here")
	}
	if _, err := os.Stat("node_modules/.bin/tsc"); err != nil {
		testrun.Missing(t, "there is no compiler here: run npm ci in client/typescript")
	}
	if err := compiled(); err != nil {
		t.Fatal(err)
	}
}

var compiled = sync.OnceValue(func() error {
	cmd := process.Command("npm", "run", "pretest") //nolint:noctx // it is for all tests
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("npm run pretest: %w\n%s", err, output)
	}
	return nil
})

// startTLS starts a server that speaks TLS before a service, by HTTP/2 too, and returns its address
// and the file of its certificate.
func startTLS(t *testing.T, address string) (tlsAddress, certificate string) {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	front := httputil.NewSingleHostReverseProxy(target)
	front.Transport = &http.Transport{Protocols: protocols}
	server := httptest.NewUnstartedServer(front)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate = filepath.Join(t.TempDir(), "certificate.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(certificate, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, certificate
}
