package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// A guarded service demands a token.
type guarded struct {
	store   *stint.Store
	service *service.Service
	token   atomic.Value
	asked   atomic.Int64 // how many requests there were
}

func newGuarded(t *testing.T, token string) *guarded {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{PollInterval: 20 * time.Millisecond})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() { wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil) })
	s, err := service.New(pool, store, service.Options{})
	wantErr(t, "service.New", err, nil)
	t.Cleanup(func() { wantErr(t, "Close", s.Close(context.WithoutCancel(t.Context())), nil) })
	g := &guarded{store: store, service: s}
	g.token.Store(token)
	return g
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.asked.Add(1)
	if r.Header.Get("Authorization") == "Bearer "+g.token.Load().(string) {
		g.service.ServeHTTP(w, r)
		return
	}
	err := connect.NewError(connect.CodeUnauthenticated, errors.New("no such token"))
	_ = connect.NewErrorWriter().Write(w, r, err) // the client finds out
}

// start serves on this machine.
func (g *guarded) start(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(g)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		g.service.Drain()
		server.Close()
	})
	return server.URL
}

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, text)
	return file
}

func writeToken(t *testing.T, file, text string) {
	t.Helper()
	wantErr(t, "WriteFile", os.WriteFile(file, []byte(text), 0o600), nil)
}

// Every request has the token, and so has the stream by which an actor lives.
func TestToken_GoesWithEveryRequest(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "secret")
	address := g.start(t)
	for name, options := range map[string]client.Options{
		"token": {Token: "secret"}, "file": {TokenFile: tokenFile(t, "secret\n")},
		"with a client of the caller's": {
			Token: "secret", HTTPClient: &http.Client{Transport: newTransport()},
		},
	} {
		c := testservice.Client(t, address, options)
		actor := stint.ActorID(name)
		wantErr(t, name, c.InsertTasks(t.Context(), []stint.Task{{Action: "act"}}), nil)
		wantErr(t, name, c.RegisterActor(t.Context(), actor, []string{"act"}), nil)
		wantErr(t, name, c.UnregisterActor(t.Context(), actor), nil)
	}
}

func TestToken_ThatIsWrongIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "secret")
	address := g.start(t)
	for name, options := range map[string]client.Options{
		"none": {}, "wrong": {Token: "guess-8f1"},
		"wrong file": {TokenFile: tokenFile(t, "guess-8f1")},
	} {
		before := g.asked.Load()
		err := testservice.Client(t, address, options).InsertTasks(t.Context(),
			[]stint.Task{{Action: "act"}})
		wantErr(t, name, err, client.ErrRefused)
		if strings.Contains(err.Error(), "guess") {
			t.Errorf("%s: %v tells the token", name, err)
		}
		if asked := g.asked.Load() - before; asked != 1 {
			t.Errorf("%s: the client asked %d times", name, asked)
		}
	}
	for name, file := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "none"), "empty": tokenFile(t, " \n"),
		"two lines": tokenFile(t, "secret\nsecret"),
	} {
		before := g.asked.Load()
		c := testservice.Client(t, address, client.Options{TokenFile: file})
		err := c.InsertTasks(t.Context(), []stint.Task{{Action: "act"}})
		if err == nil || !strings.Contains(err.Error(), file) || g.asked.Load() != before {
			t.Errorf("with a token file that is %s: %v, %d requests", name, err,
				g.asked.Load()-before)
		}
	}
}

// A token that was replaced in the file is taken without a failure, also for streams.
func TestToken_IsReadAgainWhenItWasReplaced(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "first")
	file := tokenFile(t, "first")
	c := testservice.Client(t, g.start(t), client.Options{TokenFile: file})
	insert := func() error {
		return c.InsertTasks(t.Context(), []stint.Task{{Action: "act"}})
	}
	wantErr(t, "InsertTasks", insert(), nil)
	g.token.Store("second")
	wantErr(t, "InsertTasks before the file has the token", insert(), client.ErrRefused)
	writeToken(t, file, "second")
	wantErr(t, "InsertTasks with the new token", insert(), nil)
	g.token.Store("third")
	writeToken(t, file, "third")
	wantErr(t, "RegisterActor", c.RegisterActor(t.Context(), "actor", []string{"act"}), nil)
}

// A token never goes where others can read it, nor to whoever a redirect names.
func TestToken_StaysBetweenClientAndService(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		"http://localhost:7330": true, "http://127.0.0.1:7330": true, "http://[::1]:7330": true,
		"https://tasks.example": true, "http://tasks.example": false, "http://10.0.0.1": false,
		"http://localhost.example": false, "http://127.0.0.1.example": false,
	} {
		for _, options := range []client.Options{{Token: "secret"}, {TokenFile: "none"}} {
			_, err := client.New(address, options)
			if allowed {
				wantErr(t, address, err, nil)
			} else {
				wantErr(t, address, err, stint.ErrInvalidArgument)
			}
		}
	}
	var told atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { told.Store(true) }))
	t.Cleanup(elsewhere.Close)
	redirecting := httptest.NewServer(http.RedirectHandler(elsewhere.URL,
		http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	c := testservice.Client(t, redirecting.URL, client.Options{
		Token: "secret", HTTPClient: &http.Client{},
	})
	err := c.ReplaceTasks(t.Context(), []stint.Task{{ID: "a", Action: "act"}})
	if err == nil || told.Load() {
		t.Errorf("ReplaceTasks at a redirect = %v, told = %t", err, told.Load())
	}
}

// Both ends show certificates of an authority that the system does not know.
func TestTLS_KnowsPrivateAuthoritiesAndClients(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	g := newGuarded(t, "secret")
	server := httptest.NewUnstartedServer(g)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	known := x509.NewCertPool()
	known.AddCert(server.Certificate())
	trusting := &tls.Config{
		RootCAs: known, Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS13,
	}
	c := testservice.Client(t, server.URL, client.Options{Token: "secret", TLS: trusting})
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []stint.Task{{Action: "act"}}), nil)
	for name, config := range map[string]*tls.Config{
		"no authority":   {Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS13},
		"no certificate": {RootCAs: known, MinVersion: tls.VersionTLS13},
	} {
		c := testservice.Client(t, server.URL, client.Options{Token: "secret", TLS: config})
		err := c.ReplaceTasks(t.Context(), []stint.Task{{ID: "a", Action: "act"}})
		if err == nil {
			t.Errorf("with %s, the call succeeds", name)
		}
	}
}

func TestOptions_ThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		address string
		options client.Options
	}{
		"two tokens": {"https://a", client.Options{Token: "a", TokenFile: "b"}},
		"two clients": {
			"https://a", client.Options{HTTPClient: &http.Client{}, TLS: &tls.Config{}},
		},
		"TLS without TLS":  {"http://localhost", client.Options{TLS: &tls.Config{}}},
		"a token of lines": {"https://a", client.Options{Token: "a\nb"}},
		"a user":           {"https://me:secret@a", client.Options{}},
		"a query":          {"https://a?token=secret", client.Options{}},
		"no scheme":        {"localhost:7330", client.Options{}},
		"a database":       {"postgres://localhost/app", client.Options{}},
	} {
		_, err := client.New(test.address, test.options)
		wantErr(t, name, err, stint.ErrInvalidArgument)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v tells a secret", name, err)
		}
	}
}
