package python_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	process "os/exec"
	"path/filepath"
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

// interpreter is a Python that the package supports. Where all tests have to run, it has to be
// there.
func interpreter(t *testing.T) string {
	t.Helper()
	const supported = "import sys; sys.exit(sys.version_info < (3, 9))"
	for _, program := range []string{"/usr/bin/python3", "python3"} {
		if process.CommandContext(t.Context(), program, "-c", supported).Run() == nil {
			return program
		}
	}
	testrun.Missing(t, "there is no Python from 3.9 on here: apt-get install python3")
	return ""
}

// The tests of the package, which are in Python, pass on a service.
// Proves G113, G333.
func TestPackage_PassesItsTestsOnAService(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	python := interpreter(t)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{
		PollInterval: 20 * time.Millisecond, History: stint.HistoryOptions{Tries: 10},
	})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	address, _ := testservice.Start(t, pool, store, service.Options{})
	const leak = "ResourceWarning"
	cmd := process.CommandContext(t.Context(), python,
		"-W", "always::"+leak, "-m", "unittest", "-v")
	tlsAddress, certificate := startTLS(t, address, 0)
	idleAddress, _ := startTLS(t, address, time.Millisecond) // the certificate is the same
	cmd.Env = append(os.Environ(), "STINT_SERVER="+address, "STINT_TLS_SERVER="+tlsAddress,
		"STINT_TLS_IDLE_SERVER="+idleAddress, "STINT_TLS_CERTIFICATE="+certificate,
		"STINT_DATABASE="+database(t, pool), "PYTHONDONTWRITEBYTECODE=1")
	output, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(output, []byte("test_worker")) {
		t.Errorf("%s -m unittest = %v\n%s", python, err, output)
	}
	if bytes.Contains(output, []byte(leak)) { // which fails no test: it is found by destructors
		t.Errorf("the tests leave something open:\n%s", output)
	}
	found, err := store.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// database makes the SQL functions in a database, and returns how drivers call it.
func database(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	functions, err := migrations.Functions(migrations.DefaultSchema)
	if err == nil {
		_, err = pool.Exec(t.Context(), functions)
	}
	if err != nil {
		t.Fatal(err)
	}
	config := pool.Config().ConnConfig
	return fmt.Sprintf("host='%s' port=%d dbname='%s' user='%s' password='%s'",
		config.Host, config.Port, config.Database, config.User, config.Password)
}

// startTLS starts a server that speaks TLS before a service, and returns its address and the file
// of its certificate. It closes connections that are idle for longer than idle, unless that is 0.
func startTLS(
	t *testing.T, address string, idle time.Duration,
) (tlsAddress, certificate string) {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	server.Config.IdleTimeout = idle
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate = filepath.Join(t.TempDir(), "certificate.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(certificate, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, certificate
}
