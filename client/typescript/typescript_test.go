package typescript_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	process "os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/internal/testservice"
	"github.com/stint-tasks/stint/service"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// The tests of the package, which are in TypeScript, pass on a service.
// Proves G113.
func TestPackage_PassesItsTestsOnAService(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	build(t)
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
	tlsAddress, certificate := startTLS(t, address)
	cmd := process.CommandContext(t.Context(), "node", "--test", "--test-reporter=tap", "build/")
	cmd.Env = append(os.Environ(), "STINT_SERVER="+address, "STINT_TLS_SERVER="+tlsAddress,
		"NODE_EXTRA_CA_CERTS="+certificate)
	output, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(output, []byte("tasks of a worker that is killed")) {
		t.Errorf("node --test = %v\n%s", err, output)
	}
	found, err := store.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// build compiles the package and its tests with what npm ci has installed. Where all tests have to
// run, Node and that have to be there.
func build(t *testing.T) {
	t.Helper()
	const supported = "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"
	if err := process.CommandContext(t.Context(), "node", "-e", supported).Run(); err != nil {
		testrun.Missing(t, "there is no Node from 20 on here")
	}
	if _, err := os.Stat("node_modules/.bin/tsc"); err != nil {
		testrun.Missing(t, "there is no compiler here: run npm ci in client/typescript")
	}
	output, err := process.CommandContext(t.Context(), "npm", "run", "pretest").CombinedOutput()
	if err != nil {
		t.Fatalf("npm run pretest = %v\n%s", err, output)
	}
}

// startTLS starts a server that speaks TLS before a service, and returns its address and the file
// of its certificate.
func startTLS(t *testing.T, address string) (tlsAddress, certificate string) {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(server.Close)
	certificate = filepath.Join(t.TempDir(), "certificate.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(certificate, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, certificate
}
