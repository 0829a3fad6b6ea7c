package jwtauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/service/jwtauth"
)

const (
	issuer   = "https://login.example.com"
	audience = "stint"
)

// A signer signs tokens with a key that has an ID.
type signer struct {
	id     string
	method jwt.SigningMethod
	key    crypto.Signer
}

func newSigner(t *testing.T, id string, method jwt.SigningMethod) signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch method {
	case jwt.SigningMethodES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jwt.SigningMethodRS256, jwt.SigningMethodPS256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, method, key}
}

// good are the claims of a token that is valid.
func good() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": issuer, "aud": audience, "sub": "mailer", "exp": time.Now().Add(time.Hour).Unix(),
	}
}

func with(name string, value any) jwt.MapClaims {
	claims := good()
	claims[name] = value
	return claims
}

func without(name string) jwt.MapClaims {
	claims := good()
	delete(claims, name)
	return claims
}

func (s signer) sign(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	return signed(t, s.method, s.key, claims, map[string]any{"kid": s.id})
}

func signed(
	t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims, header map[string]any,
) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	maps.Copy(token.Header, header)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// setOf is the JSON Web Key Set of the public keys.
func setOf(t *testing.T, signers ...signer) []byte {
	t.Helper()
	var set jwkset.JWKSMarshal
	for _, s := range signers {
		key, err := jwkset.NewJWKFromKey(s.key.Public(), jwkset.JWKOptions{
			Metadata: jwkset.JWKMetadataOptions{
				KID: s.id, ALG: jwkset.ALG(s.method.Alg()), USE: jwkset.UseSig,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		set.Keys = append(set.Keys, key.Marshal())
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fileOf is a file with what is in it.
func fileOf(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func newVerifier(t *testing.T, options jwtauth.Options) *jwtauth.Verifier {
	t.Helper()
	options.Issuer, options.Audience = issuer, audience
	verifier, err := jwtauth.New(t.Context(), options)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return verifier
}

func wantPrincipal(t *testing.T, verifier *jwtauth.Verifier, token, want string) {
	t.Helper()
	if got, err := verifier.Principal(t.Context(), token); got != want || err != nil {
		t.Errorf("Principal = %q, %v, want %q", got, err, want)
	}
}

// wantInvalid checks that a token is refused for a reason, which says nothing of the token.
func wantInvalid(t *testing.T, verifier *jwtauth.Verifier, token, reason string) {
	t.Helper()
	got, err := verifier.Principal(t.Context(), token)
	if got != "" || !errors.Is(err, jwtauth.ErrInvalid) || !strings.Contains(err.Error(), reason) {
		t.Errorf("Principal of %.100s = %q, %v, want %q", token, got, err, reason)
		return
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 3 && strings.Contains(err.Error(), part) {
			t.Errorf("the error has a part of the token: %v", err)
		}
	}
}

func TestPrincipal_OfEachAlgorithm(t *testing.T) {
	t.Parallel()
	signers := []signer{
		newSigner(t, "r", jwt.SigningMethodRS256), newSigner(t, "e", jwt.SigningMethodES256),
		newSigner(t, "d", jwt.SigningMethodEdDSA),
	}
	verifier := newVerifier(t, jwtauth.Options{JWKS: fileOf(t, setOf(t, signers...))})
	for _, s := range signers {
		wantPrincipal(t, verifier, s.sign(t, good()), "mailer")
	}
	pss := newSigner(t, "p", jwt.SigningMethodPS256)
	set := fileOf(t, setOf(t, pss))
	wantInvalid(t, newVerifier(t, jwtauth.Options{JWKS: set}), pss.sign(t, good()),
		"its signature or its algorithm is wrong")
	verifier = newVerifier(t, jwtauth.Options{JWKS: set, Algorithms: []string{"PS256"}})
	wantPrincipal(t, verifier, pss.sign(t, good()), "mailer")
	// Of a set with one key, it need not be named.
	wantPrincipal(t, verifier, signed(t, pss.method, pss.key, good(), nil), "mailer")
}

func TestPrincipal_RefusesWhatProvesNothing(t *testing.T) {
	t.Parallel()
	r := newSigner(t, "r", jwt.SigningMethodRS256)
	e := newSigner(t, "e", jwt.SigningMethodES256)
	other := newSigner(t, "r", jwt.SigningMethodRS256)
	verifier := newVerifier(t, jwtauth.Options{JWKS: fileOf(t, setOf(t, r, e))})
	token := r.sign(t, good())
	wantPrincipal(t, verifier, token, "mailer")

	at := func(seconds time.Duration) int64 { return time.Now().Add(seconds * time.Second).Unix() }
	wantPrincipal(t, verifier, r.sign(t, with("exp", at(-10))), "mailer") // clocks differ
	wantPrincipal(t, verifier, r.sign(t, with("nbf", at(10))), "mailer")
	wantPrincipal(t, verifier, r.sign(t, with("aud", []string{"x", audience})), "mailer")
	for reason, claims := range map[string][]jwt.MapClaims{
		"it has expired":                      {with("exp", at(-40))},
		"it is not valid yet":                 {with("nbf", at(3600))},
		"it is of another issuer":             {with("iss", "https://evil.example.com")},
		"it is for another audience":          {with("aud", "x"), with("aud", []string{"x"})},
		"it lacks":                            {without("exp"), without("iss"), without("aud")},
		"it has no text as the claim \"sub\"": {without("sub"), with("sub", 7), with("sub", "")},
		"its claim exp is not a number":       {with("exp", "tomorrow"), with("exp", nil)},
	} {
		for _, claims := range claims {
			wantInvalid(t, verifier, r.sign(t, claims), reason)
		}
	}

	public, err := x509.MarshalPKIXPublicKey(r.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	asSecret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	kid := map[string]any{"kid": "r"}
	extended := map[string]any{"kid": "r", "crit": []string{"exp"}}
	unsigned := signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good(), kid)
	header, rest, _ := strings.Cut(token, ".")
	for _, forged := range []struct{ token, reason string }{
		{"", "it is malformed"},
		{"x.y.z", "it is malformed"},
		{header, "it is malformed"},
		{header + "." + rest + "." + rest, "it is malformed"},
		{token[:len(token)-8] + "AAAAAAAA", "its signature"},
		{token[:strings.LastIndex(token, ".")+1], "its signature"},
		{other.sign(t, good()), "its signature"},
		{unsigned, "its signature or"},
		{signed(t, jwt.SigningMethodHS256, asSecret, good(), kid), "its signature or"},
		{signed(t, jwt.SigningMethodPS256, r.key, good(), kid), "its signature or"},
		{signed(t, e.method, e.key, good(), kid), "its key is not known"}, // of another algorithm
		{signed(t, r.method, r.key, good(), map[string]any{"kid": 7}), "it is malformed"},
		{signed(t, r.method, r.key, good(), map[string]any{"kid": "none"}), "its key is not known"},
		{signed(t, r.method, r.key, good(), nil), "its key is not known"}, // there are several
		{signed(t, r.method, r.key, good(), extended), "it has extensions"},
		{r.sign(t, with("x", strings.Repeat("x", 16<<10))), "it is longer than 16 KiB"},
	} {
		wantInvalid(t, verifier, forged.token, forged.reason)
	}
}

func TestPrincipal_FindsTheClaim(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "d", jwt.SigningMethodEdDSA)
	set := fileOf(t, setOf(t, s))
	claims := good()
	claims["realm"] = map[string]any{"name": "nested", "a": map[string]any{"b": "deep"}}
	claims["https://example.com/name"] = "with dots"
	for claim, want := range map[string]string{
		"realm.name": "nested", "realm.a.b": "deep", "https://example.com/name": "with dots",
		"realm": "", "realm.none": "", "sub.name": "", "realm.name.x": "", ".": "",
	} {
		verifier := newVerifier(t, jwtauth.Options{JWKS: set, Claim: claim})
		if want == "" {
			wantInvalid(t, verifier, s.sign(t, claims), "it has no text as the claim")
		} else {
			wantPrincipal(t, verifier, s.sign(t, claims), want)
		}
	}
}

func TestNew_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "d", jwt.SigningMethodEdDSA)
	set := fileOf(t, setOf(t, s))
	mux := http.NewServeMux()
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(setOf(t, s))
	})
	mux.Handle("/moved", http.RedirectHandler("/keys", http.StatusFound))
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat(" ", 2<<20)))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	all := jwtauth.Options{JWKS: set, Issuer: issuer, Audience: audience}
	source := func(jwks string) jwtauth.Options {
		return jwtauth.Options{JWKS: jwks, Issuer: issuer, Audience: audience}
	}
	of := func(algorithms ...string) jwtauth.Options {
		options := all
		options.Algorithms = algorithms
		return options
	}
	for _, bad := range []struct {
		options jwtauth.Options
		want    string
	}{
		{jwtauth.Options{JWKS: set, Issuer: issuer}, "must not be empty"},
		{jwtauth.Options{JWKS: set, Audience: audience}, "must not be empty"},
		{source(""), "must not be empty"},
		{of("none"), `"none" is not one`},
		{of("RS256", "HS256"), `"HS256" is not one`},
		{source("http://login.example.com/keys"), "must begin with https://"},
		{source("https://me:secret@[/"), "JWKS is no URL"},
		{source(set + "x"), "no such file"},
		{source(fileOf(t, []byte("<html>"))), "invalid character"},
		{source(fileOf(t, []byte(`{"keys":[{"kty":"oct","k":"AA"}]}`))), "no key of a known"},
		{source(server.URL), "404"},
		{source(server.URL + "/moved"), "302"},
		{source(server.URL + "/large"), "more than 1 MiB"},
	} {
		verifier, err := jwtauth.New(t.Context(), bad.options)
		if verifier != nil || err == nil || !strings.Contains(err.Error(), bad.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%+v) = %v, want %q", bad.options, err, bad.want)
		}
	}
	verifier := newVerifier(t, jwtauth.Options{JWKS: server.URL + "/keys"})
	wantPrincipal(t, verifier, s.sign(t, good()), "mailer")
}

// A key that is added to the file is used, one that is removed from it is not, without a restart.
func TestPrincipal_ReadsTheFileAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	before := newSigner(t, "before", jwt.SigningMethodEdDSA)
	after := newSigner(t, "after", jwt.SigningMethodEdDSA)
	file := fileOf(t, setOf(t, before))
	verifier := newVerifier(t, jwtauth.Options{JWKS: file})
	wantPrincipal(t, verifier, before.sign(t, good()), "mailer")
	if err := os.WriteFile(file, setOf(t, after), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		_, gone := verifier.Principal(ctx, before.sign(t, good()))
		name, err := verifier.Principal(ctx, after.sign(t, good()))
		if errors.Is(gone, jwtauth.ErrInvalid) && err == nil && name == "mailer" {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the old key: %v, the new one: %v", gone, err)
		}
	}
}

// A time that is none is called so, whatever it would pass for.
func TestVerifier_SaysWhichTimeIsNone(t *testing.T) {
	t.Parallel()
	r := newSigner(t, "r", jwt.SigningMethodEdDSA)
	verifier := newVerifier(t, jwtauth.Options{JWKS: fileOf(t, setOf(t, r))})
	for _, name := range []string{"exp", "nbf", "iat"} {
		for _, value := range []any{
			"tomorrow", "NaN", "4102444800", "", true, nil, []any{4102444800}, map[string]any{},
		} {
			wantInvalid(t, verifier, r.sign(t, with(name, value)),
				"its claim "+name+" is not a number")
		}
		for _, value := range []float64{
			1e300, -1e300, math.MaxFloat64, math.MaxInt64, math.MinInt64, 1e19, -1e12,
			253402300800, float64(time.Now().UnixNano()), float64(time.Now().UnixMilli()),
		} {
			wantInvalid(t, verifier, r.sign(t, with(name, value)),
				"its claim "+name+" is not a number of seconds")
		}
	}
	for _, claims := range []jwt.MapClaims{
		with("exp", 253402300799), with("exp", 4102444800.75), with("nbf", -1), with("nbf", 0.5),
		with("nbf", -62135596800), with("iat", 1e9+0.25), with("iat", 4102444800),
	} {
		wantPrincipal(t, verifier, r.sign(t, claims), "mailer")
	}
	for _, exp := range []any{0, -1, 0.5, -253402300799} {
		wantInvalid(t, verifier, r.sign(t, with("exp", exp)), "it has expired")
	}
	wantInvalid(t, verifier, r.sign(t, with("nbf", 253402300799)), "it is not valid yet")
}

// No text is a token that was not signed.
func FuzzPrincipal(f *testing.F) {
	for _, text := range []string{
		"", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "eyJhbGciOiJFUzI1NiJ9.e30.AAAA",
		"eyJhbGciOiJFUzI1NiIsImtpZCI6ImEiLCJjcml0IjpbXX0.e30.AAAA",
	} {
		f.Add(text)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	set := jwkset.NewMemoryStorage()
	jwk, err := jwkset.NewJWKFromKey(key.Public(), jwkset.JWKOptions{
		Metadata: jwkset.JWKMetadataOptions{KID: "a"},
	})
	if err == nil {
		err = set.KeyWrite(f.Context(), jwk)
	}
	if err != nil {
		f.Fatal(err)
	}
	text, err := set.JSON(f.Context())
	path := filepath.Join(f.TempDir(), "keys")
	if err = errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		f.Fatal(err)
	}
	verifier, err := jwtauth.New(f.Context(), jwtauth.Options{
		JWKS: path, Issuer: issuer, Audience: audience,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, token string) {
		name, err := verifier.Principal(t.Context(), token)
		if name != "" || !errors.Is(err, jwtauth.ErrInvalid) {
			t.Errorf("%q is a token of %q, %v", token, name, err)
		}
	})
}
