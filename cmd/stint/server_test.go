//go:build unix

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// silence is the address of a service that does not answer.
const silence = "http://127.0.0.1:1"

func TestServer_FlagsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	file := writeFile(t, "nothing")
	for _, test := range []struct{ env, args, want string }{
		{"", "ls --server " + silence + " --database-url " + nowhere, "--server and --data"},
		{"", "ls --server=", "--server is empty"},
		{"", "ls --server tasks.example", "invalid --server 'tasks.example': must have the form"},
		{"", "ls --server http://me:secret@a", "invalid --server ...: must have the form http"},
		{"", "ls --server " + silence + " --schema other", "--schema is for a database"},
		{"", "ls --server " + silence + " --client-cert a", "--client-cert and --client-key need"},
		{"", "ls --server " + silence + " --token-file=", "--token-file is empty"},
		{"", "ls --server " + silence + " --token-file none", "--token-file: open none: no such"},
		{"", "ls --server " + silence + " --server-ca a", "--server-ca is for addresses"},
		{"", "ls --server https://a --server-ca none", "--server-ca: open none: no such"},
		{"", "ls --server https://a --server-ca " + file, "has no certificate in PEM"},
		{"", "ls --server https://a --client-cert a --client-key b", "--client-cert and --client-"},
		{"", "ls --server http://a --token-file " + file, "the token of --token-file is sent to"},
		{"", "ls --token-file a", "--token-file needs --server or STINT_SERVER"},
		{"", "migrate --server " + silence, "needs the database itself, not a service: instead of"},
		{"", "demo --server " + silence, "instead of --server, use --database-url"},
		{"", "serve --server " + silence, "instead of --server, use --database-url"},
		{"STINT_SERVER=" + silence, "migrate status", "instead of STINT_SERVER, use"},
		{
			"STINT_SERVER=" + silence + " STINT_DATABASE_URL=" + nowhere, "ls",
			"STINT_SERVER and STINT_DATABASE_URL are both set: unset one of them, or give",
		},
		{
			"STINT_SERVER=" + silence + " STINT_DATABASE_URL_FILE=" + writeFile(t, nowhere), "ls",
			"STINT_SERVER and STINT_DATABASE_URL_FILE are both set",
		},
		{"STINT_SERVER=localhost", "ls", "invalid STINT_SERVER 'localhost': must have the form"},
		{
			"STINT_SERVER=https://a STINT_TOKEN=a STINT_TOKEN_FILE=b", "ls",
			"STINT_TOKEN and STINT_TOKEN_FILE are both set",
		},
		{"STINT_SERVER=http://a STINT_TOKEN=secret", "ls", "the token of STINT_TOKEN is sent to"},
		{"STINT_SERVER=" + silence, "worker --keep-aborted 1d --dir " +
			processes.Write(t, map[string]string{"act": ""}), "--keep-aborted is for a database"},
	} {
		r := run(t, strings.Fields(test.env), "", strings.Fields(test.args)...)
		r.wantExit(t, 2, "stint: ", test.want)
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s tells a secret: %s", test.args, r.stderr)
		}
	}
}

// A flag beats what the environment says of the other.
func TestServer_AFlagBeatsTheEnvironment(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	url := testdb.URL(db.pool)
	at, _ := testservice.Start(t, db.pool, db.store, service.Options{})
	both := []string{"STINT_SERVER=" + silence, "STINT_DATABASE_URL=" + nowhere}
	for _, test := range []struct {
		env  []string
		args []string
	}{
		{[]string{"STINT_DATABASE_URL=" + nowhere}, []string{"ls", "--server", at}},
		{[]string{"STINT_SERVER=" + silence}, []string{"ls", "--database-url", url}},
		{[]string{"STINT_SERVER=" + silence}, []string{"ls", "--server", at + "/"}},
		{both, []string{"ls", "--server", at}},
		{both, []string{"ls", "--database-url", url}},
		{[]string{"STINT_SERVER=" + at}, []string{"ls"}},
	} {
		run(t, test.env, "", test.args...).wantExit(t, 0).wantOutput(t, "\na ")
	}
	run(t, nil, "", "version", "--server", at).wantExit(t, 0).wantOutput(t, "the service is stint ")
	run(t, nil, "", "version", "--server", at, "--json").wantExit(t, 0).
		wantOutput(t, `"service":"`)
	run(t, []string{"STINT_SERVER=" + silence}, "", "version").wantExit(t, 0)
}

// linesOnService are those of sub-commands that work on a service.
func linesOnService(t *testing.T) (lines [][]string) {
	t.Helper()
	for _, args := range linesOnDatabase(t) {
		onDatabase := []string{"migrate", "adopt", "import", "export", "demo", "serve"}
		if !slices.Contains(onDatabase, args[0]) {
			lines = append(lines, args)
		}
	}
	return lines
}

func TestServer_ThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, args := range linesOnService(t) {
		runLine(t, []string{"STINT_SERVER=" + silence}, args...).wantExit(t, 4, silence)
	}
}

func TestServer_WhoseSchemaIsMissingIsToldFromOthers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	at, _ := testservice.Start(t, db.pool, db.store, service.Options{})
	for _, args := range linesOnService(t) {
		runLine(t, []string{"STINT_SERVER=" + at}, args...).wantExit(t, 5, "schema version")
	}
}

// demanding lets in who has the token.
func demanding(token string) func(s http.Handler) http.Handler {
	return func(s http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			code := connect.CodeUnauthenticated
			switch r.Header.Get("Authorization") {
			case "Bearer " + token:
				s.ServeHTTP(w, r)
				return
			case "Bearer limited":
				code = connect.CodePermissionDenied
			}
			err := connect.NewError(code, errors.New("who are you"))
			_ = connect.NewErrorWriter().Write(w, r, err) // the command finds out
		})
	}
}

func TestServer_IsShownTheToken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	at, _ := testservice.StartBehind(t, db.pool, db.store, service.Options{}, demanding("secret"))
	file := writeFile(t, "secret\n")
	for _, test := range []struct {
		env  string
		args []string
		code int
		says string
	}{
		{"STINT_TOKEN=secret", nil, 0, ""},
		{"STINT_TOKEN_FILE=" + file, nil, 0, ""},
		{"STINT_TOKEN=guess", []string{"--token-file", file}, 0, ""},
		{"", nil, 10, "; it knows you by the token of --token-file"},
		{"STINT_TOKEN=guess", nil, 10, "refuses the call"},
		{"STINT_TOKEN=limited", nil, 10, "refuses the call"},
	} {
		for _, line := range []string{"ls", "wait a --timeout 10ms", "top"} {
			if code := test.code; code == 0 && line != "ls" {
				continue
			}
			env := append(strings.Fields(test.env), "STINT_SERVER="+at)
			r := runLine(t, env, append(strings.Fields(line), test.args...)...)
			r.wantExit(t, test.code, test.says)
			if strings.Contains(r.stderr, "guess") {
				t.Errorf("%s tells the token: %s", line, r.stderr)
			}
		}
	}
	dir := processes.Write(t, map[string]string{"act": ""})
	working := work(t, []string{"STINT_SERVER=" + at, "STINT_TOKEN=secret"}, dir)
	eventually(t, "the end of the task", func() bool {
		return db.get(t, "a").State == stint.StateCompleted
	})
	working.end(t)
}

func TestServer_ShowsAndSeesCertificates(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s, err := service.New(db.pool, db.store, service.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ // with 1.3, a client may send its request before it hears more
		ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
		MaxVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert := filepath.Join(dir, "cert")
	trusting := []string{"ls", "--server", server.URL, "--server-ca", cert}
	showing := append(trusting, "--client-cert", cert, "--client-key", filepath.Join(dir, "key"))
	run(t, nil, "", showing...).wantExit(t, 0, "no tasks")
	run(t, nil, "", trusting...).wantExit(t, 4, "tls: handshake failure")
	run(t, nil, "", "ls", "--server", server.URL).wantExit(t, 4, "certificate")
}

// One person serves, others insert, perform and look, each with what they are granted.
func TestServer_IsServedByTheCommand(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := t.TempDir()
	path, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	write(t, grants, `
shop: [{verbs: [insert, read-bodies], actions: [act], ids: ["shop/*"]}]
worker: [{verbs: [own], actions: [act]}]
keeper: [{verbs: [read, control], actions: ["*"]}]`)
	as := map[string][]string{}
	for _, name := range []string{"shop", "worker", "keeper"} {
		as[name] = []string{"STINT_TOKEN=" + db.newToken(t, path, name)}
	}
	s := db.serve(t, "--tokens", path, "--grants", grants)
	try := func(name, line string, code int, parts ...string) ran {
		t.Helper()
		args := append(strings.Fields(line), "--server", s.address)
		return run(t, as[name], "", args...).wantExit(t, code, parts...)
	}
	try("shop", "insert --id shop/1 --action act --body 42", 0)
	try("shop", "insert --id other/1 --action act", 10, `"shop" may not insert task "other/1"`)
	try("shop", "abort shop/1", 10, "may not control")
	try("nobody", "ls", 10, "token", "--token-file, STINT_TOKEN_FILE or STINT_TOKEN")
	try("worker", "top", 2, "needs a terminal")
	working := work(t, append(as["worker"], "STINT_SERVER="+s.address),
		processes.Write(t, map[string]string{"act": "cat"}))
	eventually(t, "the end of the task", func() bool {
		return db.get(t, "shop/1").State == stint.StateCompleted
	})
	working.end(t)
	try("shop", "show shop/1", 0).wantOutput(t, "completed", "42")
	try("keeper", "ls", 0).wantOutput(t, "shop/1")
	try("keeper", "retry --state completed --older-than 0 --yes", 0).wantOutput(t, "retried 1 task")
	try("keeper", "abort --action act --yes", 0).wantOutput(t, "aborted 1 task")
	try("keeper", "prune --aborted-after 0 --dry-run", 0).wantOutput(t, "would prune 1 task")
	try("keeper", "prune --aborted-after 0 --yes", 0).wantOutput(t, "pruned 1 task")
	try("shop", "prune --aborted-after 0 --yes", 10)
	try("shop", "check", 10, "may not read all tasks")
	try("keeper", "stats", 0)
	try("keeper", "version", 0).wantOutput(t, "the service is stint")
	s.stop(t)
	try("keeper", "ls", 4, "refused")
}
