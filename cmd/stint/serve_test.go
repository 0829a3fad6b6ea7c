//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A server is stint serve at work, as somebody calls it.
type server struct {
	*process
	address string
	client  *http.Client
	token   string
}

// serve starts stint serve on the database.
func (d *database) serve(t *testing.T, flags ...string) *server {
	t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)
	env := append(slices.Clone(d.env), "STINT_DATABASE_URL="+testdb.URL(d.pool))
	s := &server{process: start(t, newCommand(t, env, args...)), client: http.DefaultClient}
	s.says(t, "msg=serving")
	s.address = regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(s.output.String())[1]
	return s
}

// call sends a request, and returns the status and the body of the answer.
func (s *server) call(t *testing.T, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), method, s.address+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (s *server) wantCall(
	t *testing.T, status int, part, method, path, body string, headers ...string,
) {
	t.Helper()
	got, text := s.call(t, method, path, body, headers...)
	if got != status || !strings.Contains(text, part) {
		t.Errorf("%s %s %s = %d %.500s, want %d %s", method, path, body, got, text, status, part)
	}
}

// wantNoSniffing checks that browsers take an answer for nothing but what its type says.
func (s *server) wantNoSniffing(t *testing.T, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), get, s.address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options of %s is %q", path, got)
	}
}

func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.wantExit(t, 0)
}

const (
	post      = http.MethodPost
	get       = http.MethodGet
	inserting = "/stint.v1.TaskService/InsertTasks"
	asking    = "/stint.v1.TaskService/GetServiceInfo"
)

func TestServe_ServesThisMachine(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	d.env = append(d.env, "STINT_SERVER=http://127.0.0.1:1") // for those who call the service
	s := d.serve(t, "--access-log", "--durability", "opportunistic")
	s.wantCall(t, 200, "ok", get, "/healthz", "")
	s.wantCall(t, 200, "ok", get, "/readyz", "")
	s.wantCall(t, 200, `"SERVING"`, post, "/grpc.health.v1.Health/Check", "{}")
	s.wantCall(t, 200, `"openapi": "3.1`, get, "/openapi.json", "")
	for _, path := range []string{"/openapi.json", "/answer", "/ends", asking} {
		s.wantNoSniffing(t, path)
	}
	s.wantCall(t, 200, `{"ids":["a"]}`, post, inserting, `{"tasks":[{"id":"a","action":"mail"}]}`)
	s.wantCall(t, 200, `"id":1`, post, "/update", `{"clientid":1,"adds":[{"group":"a//b"}]}`)
	s.wantCall(t, 200, `"group":"a//b"`, get, "/group/a//b", "")
	s.wantCall(t, 404, "no such path", get, "/nothing", "")
	s.wantCall(t, 200, `stint_tasks{action="mail",state="ready"} 1`, get, "/metrics", "")
	for _, name := range []string{"evil.example", "evil.example:7330", "0.0.0.0"} {
		s.wantCall(t, 403, "localhost", get, "/groups", "", "Host: "+name)
	}
	s.wantCall(t, 403, "cross-origin", post, inserting, `{"tasks":[{"id":"b","action":"mail"}]}`,
		"Sec-Fetch-Site: cross-site")
	s.wantCall(t, 200, `stint_service_calls_total{code="ok",procedure="`+inserting+`"} 1`, get,
		"/metrics", "")
	s.says(t, "msg=call procedure="+inserting)
	if ids := d.ids(t); len(ids) != 1 {
		t.Errorf("there are tasks %q, want a alone", ids)
	}
	s.stop(t)
}

func TestServe_RefusesWhatWouldLetEverybodyIn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "")
	bad := filepath.Join(t.TempDir(), "bad")
	write(t, bad, "{")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"reaches beyond this machine", []string{"--listen", ":0"}},
		{"reaches beyond this machine", []string{"--listen", "0.0.0.0:0"}},
		{"must have the form host:port", []string{"--listen", "7330"}},
		{"--grants is missing", []string{"--tokens", path}},
		{"--grants needs --tokens", []string{"--grants", path}},
		{"--insecure asks nobody", []string{"--insecure", "--tokens", path, "--grants", path}},
		{"--client-ca needs --tls-cert", []string{"--client-ca", path, "--grants", path}},
		{"belong together", []string{"--tls-cert", path}},
		{"--tls-cert and --tls-key:", []string{"--tls-cert", path, "--tls-key", path}},
		{"--tokens: ", []string{"--tokens", path + "x", "--grants", path}},
		{"--tokens: tokens, line 1", []string{"--tokens", bad, "--grants", path}},
		{"--grants: ", []string{"--tokens", path, "--grants", bad}},
		{"invalid --connections 0", []string{"--connections", "0"}},
		{"must not be negative", []string{"--max-calls", "-1"}},
		{"belong together", []string{"--jwt-keys", path, "--grants", path}},
		{"--jwt-keys: ", []string{
			"--jwt-keys", bad, "--jwt-issuer", "i", "--jwt-audience", "a", "--grants", path,
		}},
		{"invalid --durability", []string{"--durability", "sometimes"}},
		{"invalid --drain", []string{"--drain", "-1s"}},
	} {
		d.run(t, "", append([]string{"serve"}, c.args...)...).wantExit(t, 2, c.want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newToken makes a token with the command.
func (d *database) newToken(t *testing.T, path, name string) string {
	t.Helper()
	made := d.run(t, "", "token", "new", "--tokens", path, name).wantExit(t, 0)
	return strings.TrimSpace(made.stdout)
}

func TestServe_AsksForTokensAndFollowsItsFiles(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	dir := t.TempDir()
	path, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	write(t, grants, `shop: [{verbs: [insert], actions: ["mail/*"], ids: ["shop/*"]}]`)
	token := d.newToken(t, path, "shop")
	s := d.serve(t, "--tokens", path, "--grants", grants)
	const task = `{"tasks":[{"id":"shop/%d","action":"mail/send"}]}`
	s.wantCall(t, 401, "needs a token", post, inserting, fmt.Sprintf(task, 0))
	s.wantCall(t, 401, "needs a token", get, "/groups", "")
	s.token = token
	s.wantCall(t, 200, "shop/1", post, inserting, fmt.Sprintf(task, 1))
	s.wantCall(t, 200, "shop/2", post, inserting, fmt.Sprintf(task, 2), "Host: stint.example")
	s.wantCall(t, 403, "shop", post, inserting, `{"tasks":[{"id":"a","action":"mail/send"}]}`)
	s.wantCall(t, 403, "grant of taskstore", get, "/groups", "")
	s.wantCall(t, 403, "grant of metrics", get, "/metrics", "")

	next := d.newToken(t, path, "shop")
	eventually(t, "the second token", func() bool {
		s.token = next
		status, _ := s.call(t, post, asking, "{}")
		return status == http.StatusOK
	})
	listed := d.run(t, "", "token", "ls", "--tokens", path).wantExit(t, 0)
	first := regexp.MustCompile(`(?m)^([0-9a-f]{12}) +shop `).FindStringSubmatch(listed.stdout)
	d.run(t, "", "token", "rm", "--tokens", path, first[1]).wantExit(t, 0)
	eventually(t, "the end of the first token", func() bool {
		s.token = token
		status, _ := s.call(t, post, asking, "{}")
		return status == http.StatusUnauthorized
	})
	s.token = next
	write(t, grants, "shop: [{verbs: [taskstore]}]")
	eventually(t, "the new grants", func() bool {
		status, _ := s.call(t, get, "/groups", "")
		return status == http.StatusOK
	})
	s.wantCall(t, 403, "may not insert", post, inserting, fmt.Sprintf(task, 3))
	write(t, grants, "shop: [{verbs: [everything]}]")
	eventually(t, "the file is of no use", func() bool {
		s.wantCall(t, 200, "[]", get, "/groups", "")
		return strings.Contains(s.output.String(), "a file has changed and is of no use")
	})
	s.stop(t)
	for _, secret := range []string{token, next} {
		if strings.Contains(s.output.String(), secret) {
			t.Error("the log has a token")
		}
	}
}

// An authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	der := a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true}, key)
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(t *testing.T, of *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	of.SerialNumber = big.NewInt(time.Now().UnixNano())
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	of.Subject = pkix.Name{CommonName: "of no meaning"}
	parent := a.certificate
	if parent == nil {
		parent = of
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// issue writes a certificate for a name, and its key.
func (a *authority) issue(t *testing.T, dir, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := a.sign(t, &x509.Certificate{
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, private)
	packed, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	write(t, certificate, encode("CERTIFICATE", der))
	write(t, key, encode("PRIVATE KEY", packed))
	return certificate, key
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// trust is how a client speaks TLS that trusts the authority.
func (a *authority) trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// trusting is a client that trusts the authority, and shows a certificate if there is one.
func (a *authority) trusting(t *testing.T, files ...string) *http.Client {
	t.Helper()
	config := a.trust()
	if len(files) > 0 {
		pair, err := tls.LoadX509KeyPair(files[0], files[1])
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
}

func TestServe_AsksForCertificatesAndTokensTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	dir, ours, others := t.TempDir(), newAuthority(t), newAuthority(t)
	certificate, key := ours.issue(t, dir, "server")
	mailer, mailerKey := ours.issue(t, dir, "mailer.internal")
	stranger, strangerKey := others.issue(t, dir, "stranger")
	ca, grants := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "grants")
	write(t, ca, encode("CERTIFICATE", ours.certificate.Raw))
	write(t, grants, "mailer.internal: [{verbs: [taskstore]}]\nshop: [{verbs: [metrics]}]\n")
	flags := []string{
		"--tls-cert", certificate, "--tls-key", key, "--client-ca", ca, "--grants", grants,
	}
	s := d.serve(t, flags...)
	if !strings.HasPrefix(s.address, "https://") {
		t.Errorf("the address is %s", s.address)
	}
	s.client = ours.trusting(t)
	s.wantCall(t, 401, "needs a client certificate", get, "/groups", "")
	s.client = ours.trusting(t, stranger, strangerKey)
	s.wantCall(t, 0, "", get, "/groups", "")
	s.client = ours.trusting(t, mailer, mailerKey)
	s.wantCall(t, 200, "[]", get, "/groups", "")
	s.wantCall(t, 403, "grant of metrics", get, "/metrics", "")

	// The certificate of the server is replaced.
	before := ours.served(t, s)
	again, againKey := ours.issue(t, t.TempDir(), "server")
	for from, to := range map[string]string{again: certificate, againKey: key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, string(text))
	}
	eventually(t, "the new certificate", func() bool { return ours.served(t, s) != before })
	s.stop(t)

	path := filepath.Join(dir, "tokens")
	token := d.newToken(t, path, "shop")
	s = d.serve(t, append(flags, "--tokens", path)...)
	s.client = ours.trusting(t, mailer, mailerKey)
	s.wantCall(t, 401, "needs a token", get, "/metrics", "")
	s.token = token
	s.wantCall(t, 200, "stint_", get, "/metrics", "")
	s.client = ours.trusting(t)
	s.wantCall(t, 401, "needs a client certificate", get, "/metrics", "")
	s.stop(t)
}

// served is the serial number of the certificate that a server shows.
func (a *authority) served(t *testing.T, s *server) string {
	t.Helper()
	dialer := &tls.Dialer{Config: a.trust()}
	conn, err := dialer.DialContext(testContext(t), "tcp",
		strings.TrimPrefix(s.address, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	shown, ok := conn.(*tls.Conn)
	if !ok {
		t.Fatalf("the connection is %T", conn)
	}
	return shown.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// A call that waits is answered when the service stops, and its owner keeps what it owns.
func TestServe_StopsWithoutCuttingCallsOff(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.insert(t, stint.Task{ID: "a", Action: "mail"})
	s := d.serve(t)
	const owning = "/stint.v1.WorkerService/OwnTasks"
	const request = `{"actor":"far","session":%d,"claim":7,"max_tasks":1,"actions":["mail"],` +
		`"lease":"3600s"%s}`
	s.wantCall(t, 200, `"id":"a"`, post, owning, fmt.Sprintf(request, 1, ""))
	answered := make(chan string, 1)
	go func() {
		status, text := s.call(t, post, owning,
			fmt.Sprintf(strings.Replace(request, "7", "8", 1), 1, `,"wait":"25s"`))
		answered <- fmt.Sprint(status, " ", text)
	}()
	eventually(t, "a call that waits", func() (waits bool) {
		err := d.pool.QueryRow(t.Context(), `SELECT EXISTS (
			SELECT FROM stint.sessions WHERE 'ready mail' = ANY (topics))`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	})
	s.stop(t)
	if got := <-answered; got != "200 {}" {
		t.Errorf("the call that waited is answered by %s, want 200 {}", got)
	}
	if task := d.get(t, "a"); task.State != stint.StateInProgress || task.Tries != 1 {
		t.Errorf("the task is %s in try %d, want in progress in the first", task.State, task.Tries)
	}
}

func TestToken_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	path := filepath.Join(t.TempDir(), "tokens")
	d.run(t, "", "token", "new", "shop").wantExit(t, 2, "--tokens is missing")
	d.run(t, "", "token", "new", "--tokens", path).wantExit(t, 2, "expected one NAME, got none")
	d.run(t, "", "token", "new", "--tokens", path, "a b").wantExit(t, 2, "invalid name")
	d.run(t, "", "token", "ls", "--tokens", path).wantExit(t, 2, "no such file")
	var made struct{ Name, Token string }
	d.run(t, "", "token", "new", "--json", "--tokens", path, "shop").decode(t, &made)
	if made.Name != "shop" || !strings.HasPrefix(made.Token, "stint_") {
		t.Errorf("token new --json prints %+v", made)
	}
	var listed struct{ ID, Name string }
	d.run(t, "", "token", "ls", "--json", "--tokens", path).decode(t, &listed)
	d.run(t, "", "token", "rm", "--tokens", path, "x").
		wantExit(t, 2, "no such token", "(see: stint token ls --tokens "+path+")")
	d.run(t, "", "token", "rm", "--tokens", path, listed.ID).wantExit(t, 0)
}

// Tokens of an issuer and tokens of the file tell callers apart side by side.
func TestServe_AsksForTokensOfAnIssuer(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	dir := t.TempDir()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, grants := filepath.Join(dir, "keys.json"), filepath.Join(dir, "grants")
	write(t, keys, fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": %q}]}`,
		base64.RawURLEncoding.EncodeToString(public)))
	write(t, grants, "issued: [{verbs: [taskstore]}]\nmade: [{verbs: [metrics]}]\n")
	path := filepath.Join(dir, "tokens")
	made := d.newToken(t, path, "made")
	claims := jwt.MapClaims{
		"iss": "https://issuer", "aud": "stint", "exp": time.Now().Add(time.Hour).Unix(),
		"realm": map[string]any{"name": "issued"},
	}
	sign := func() string {
		token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
		token.Header["kid"] = "k"
		signed, err := token.SignedString(private)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	s := d.serve(t, "--jwt-keys", keys, "--jwt-issuer", "https://issuer", "--jwt-audience",
		"stint", "--jwt-claim", "realm.name", "--tokens", path, "--grants", grants)
	s.token = sign()
	s.wantCall(t, 200, "[]", get, "/groups", "")
	s.wantCall(t, 403, "grant of metrics", get, "/metrics", "")
	s.token = made
	s.wantCall(t, 200, "stint_", get, "/metrics", "")
	claims["aud"] = "another"
	s.token = sign()
	s.wantCall(t, 401, "not valid", get, "/groups", "")
	s.stop(t)
}
