package jwtauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"

	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// fetchMax is how long it may take to fetch the keys, and setBytesMax is their size at most.
	fetchMax    = 5 * time.Second
	setBytesMax = 1 << 20

	// A URL is read again after urlFresh, but after an attempt not within urlPause, whoever asks.
	urlFresh = 5 * time.Minute
	urlPause = 10 * time.Second

	// fileFresh is both for a file, which costs less.
	fileFresh = time.Second
)

// keys are the public keys of an issuer, which change now and then.
type keys struct {
	read         func(ctx context.Context) ([]byte, error)
	fresh, pause time.Duration
	stale        *outage.Log

	known atomic.Pointer[keySet]
	// reading has an element while somebody reads.
	reading chan struct{}
}

// A keySet is what an attempt to read the keys left. It does not change.
type keySet struct {
	keys []jwkset.JWK
	// read is when the keys were read, tried is when that was attempted last, and failed is why it
	// failed, if it did.
	read, tried time.Time
	failed      error
}

func newKeys(ctx context.Context, source string, logger *slog.Logger) (*keys, error) {
	k := &keys{
		reading: make(chan struct{}, 1),
		stale:   outage.New(logger, "cannot read the keys that tokens are signed with"),
	}
	if strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://") {
		at, err := url.Parse(source)
		if err != nil {
			return nil, errors.New("JWKS is no URL") // the text of err has it, with its password
		}
		if at.Scheme == "http" && !isLocal(at.Hostname()) {
			return nil, errors.New("JWKS must begin with https://: whoever can change the keys " +
				"on their way can sign tokens")
		}
		k.read, k.fresh, k.pause = fetching(source), urlFresh, urlPause
	} else {
		k.read = func(context.Context) ([]byte, error) {
			return os.ReadFile(source) //nolint:gosec // the operator names it
		}
		k.fresh, k.pause = fileFresh, fileFresh
	}
	if set := k.attempt(ctx, &keySet{}); set.failed != nil {
		return nil, set.failed
	}
	return k, nil
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fetching returns what reads a URL. A redirect is refused: it may lead to a place without TLS.
func fetching(source string) func(ctx context.Context) ([]byte, error) {
	client := &http.Client{
		Timeout: fetchMax,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return func(ctx context.Context) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
		if err != nil {
			return nil, err
		}
		request.Close = true // minutes pass until the next one
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close() //nolint:errcheck // it was read
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answers %s", request.URL.Redacted(), response.Status)
		}
		text, err := io.ReadAll(io.LimitReader(response.Body, setBytesMax+1))
		if err == nil && len(text) > setBytesMax {
			err = fmt.Errorf("%s has more than 1 MiB", request.URL.Redacted())
		}
		return text, err
	}
}

// find returns the key that a token names, after reading the keys again if they are old or do not
// have it.
func (k *keys) find(ctx context.Context, id, algorithm string) (any, error) {
	set := k.known.Load()
	if time.Since(set.read) >= k.fresh && time.Since(set.tried) >= k.pause {
		select {
		case k.reading <- struct{}{}:
			set = k.readAgain(ctx, set)
		default: // somebody does
		}
	}
	if key := set.key(id, algorithm); key != nil {
		return key, nil
	}
	select {
	case k.reading <- struct{}{}:
		set = k.readAgain(ctx, set)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch key := set.key(id, algorithm); {
	case key != nil:
		return key, nil
	case set.failed != nil:
		return nil, fmt.Errorf("its key is not known, and the keys cannot be read: %w", set.failed)
	}
	return nil, invalid("its key is not known")
}

// readAgain reads the keys for one who holds reading, which it releases, unless somebody has just
// tried.
func (k *keys) readAgain(ctx context.Context, before *keySet) *keySet {
	defer func() { <-k.reading }()
	set := k.known.Load()
	if set != before || time.Since(set.tried) < k.pause {
		return set
	}
	set = k.attempt(context.WithoutCancel(ctx), set) // others wait for the same
	if set.failed != nil {
		k.stale.Failed(ctx, set.failed)
	} else {
		k.stale.Worked(ctx)
	}
	return set
}

// attempt reads the keys. If that fails, those of before stay.
func (k *keys) attempt(ctx context.Context, before *keySet) *keySet {
	now := time.Now() //nolint:forbidigo // how old the keys of this process are
	set := &keySet{read: now, tried: now}
	text, err := k.read(ctx)
	if err == nil {
		set.keys, err = parse(text)
	}
	if err != nil {
		set.keys, set.read, set.failed = before.keys, before.read, fmt.Errorf("read JWKS: %w", err)
	}
	k.known.Store(set)
	return set
}

// parse returns the public keys of a set that are of a known kind.
func parse(text []byte) ([]jwkset.JWK, error) {
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	var known []jwkset.JWK
	for _, one := range set.Keys {
		if one.KTY == jwkset.KtyOct || one.USE == jwkset.UseEnc {
			continue // no public key, or none for signatures
		}
		key, err := jwkset.NewJWKFromMarshal(one, jwkset.JWKMarshalOptions{},
			jwkset.JWKValidateOptions{})
		switch {
		case errors.Is(err, jwkset.ErrUnsupportedKey):
		case err != nil:
			return nil, fmt.Errorf("key %q: %w", one.KID, err)
		default:
			known = append(known, key)
		}
	}
	if len(known) == 0 {
		return nil, errors.New("the set has no key of a known kind")
	}
	return known, nil
}

// key returns the key of an ID for an algorithm, or nil. A token that names none is verified with
// the only key.
func (s *keySet) key(id, algorithm string) any {
	for _, key := range s.keys {
		m := key.Marshal()
		named := m.KID == id
		if id == "" {
			named = len(s.keys) == 1
		}
		if named && (m.ALG == "" || m.ALG.String() == algorithm) {
			return key.Key()
		}
	}
	return nil
}
