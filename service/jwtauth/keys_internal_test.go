package jwtauth

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/MicahParks/jwkset"

	"github.com/stint-tasks/stint/internal/outage"
)

// A source is an issuer's URL: with keys, or away.
type source struct {
	mutex sync.Mutex
	ids   []string
	away  bool
	reads int
	takes time.Duration
	log   bytes.Buffer
}

func (s *source) read(ctx context.Context) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.reads++
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.away {
		return nil, errors.New("away")
	}
	var set jwkset.JWKSMarshal
	for _, id := range s.ids {
		key, err := jwkset.NewJWKFromKey(make(ed25519.PublicKey, ed25519.PublicKeySize),
			jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: id}})
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, key.Marshal())
	}
	return json.Marshal(set)
}

// keysOf are the keys of a source, read once.
func keysOf(t *testing.T, s *source) *keys {
	t.Helper()
	k := &keys{
		read: s.read, fresh: urlFresh, pause: urlPause, reading: make(chan struct{}, 1),
		stale: outage.New(slog.New(slog.NewTextHandler(&s.log, nil)), "cannot read"),
	}
	if set := k.attempt(t.Context(), &keySet{}); set.failed != nil {
		t.Fatal(set.failed)
	}
	return k
}

// found says what find says of a key.
func found(ctx context.Context, k *keys, id string) string {
	key, err := k.find(ctx, id, "EdDSA")
	switch {
	case key != nil && err == nil:
		return "found"
	case errors.Is(err, ErrInvalid):
		return "unknown"
	case err != nil:
		return "unavailable"
	}
	return fmt.Sprint(key)
}

func wantFound(t *testing.T, k *keys, id, want string) {
	t.Helper()
	if got := found(t.Context(), k, id); got != want {
		t.Errorf("the key %s is %s, want %s", id, got, want)
	}
}

// A key that nobody knows makes the keys be read again, but not whenever somebody makes one up.
func TestKeys_AreReadAgainForAnUnknownOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{ids: []string{"a"}}
		k := keysOf(t, s)
		<-time.After(urlPause)
		for i := range 100 {
			wantFound(t, k, fmt.Sprintf("made up %d", i), "unknown")
		}
		if s.reads != 2 {
			t.Errorf("%d reads, want one at the start and one more", s.reads)
		}
		s.ids = []string{"b"}
		wantFound(t, k, "b", "unknown")
		<-time.After(urlPause)
		wantFound(t, k, "b", "found")
		wantFound(t, k, "a", "unknown")
	})
}

// All that come with a new key at once get it by one read, although it takes a while.
func TestKeys_AreReadOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{ids: []string{"a"}}
		k := keysOf(t, s)
		<-time.After(urlPause)
		s.ids, s.takes = []string{"b"}, time.Second
		answers := make(chan string)
		for range 100 {
			go func() { answers <- found(t.Context(), k, "b") }()
		}
		for range 100 {
			if got := <-answers; got != "found" {
				t.Errorf("the key b is %s", got)
			}
		}
		if s.reads != 2 {
			t.Errorf("%d reads, want one at the start and one more", s.reads)
		}
	})
}

// While the URL is away, known keys stay, and nobody can say that other ones are wrong.
func TestKeys_StayWhileTheURLIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{ids: []string{"a"}}
		k := keysOf(t, s)
		s.away = true
		for range 24 {
			<-time.After(time.Hour)
			wantFound(t, k, "a", "found")
			wantFound(t, k, "b", "unavailable")
		}
		if !strings.Contains(s.log.String(), "away") {
			t.Errorf("the log does not say so:\n%s", s.log.String())
		}
		s.away, s.ids = false, []string{"b"}
		<-time.After(urlPause)
		wantFound(t, k, "b", "found")
		wantFound(t, k, "a", "unknown")
	})
}

// A key that was revoked is good for five minutes at most.
func TestKeys_AreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{ids: []string{"a", "b"}}
		k := keysOf(t, s)
		s.ids = []string{"b"}
		<-time.After(urlFresh - time.Second)
		wantFound(t, k, "a", "found")
		<-time.After(time.Second)
		wantFound(t, k, "a", "unknown")
		wantFound(t, k, "b", "found")
	})
}

// Whoever does not wait for a read leaves; the others get what it brings.
func TestKeys_AreReadOnIfACallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{ids: []string{"a"}}
		k := keysOf(t, s)
		<-time.After(urlPause)
		s.ids, s.takes = []string{"b"}, time.Second
		ctx, leave := context.WithCancel(t.Context())
		answers := make(chan string)
		go func() { answers <- found(ctx, k, "b") }() // reads
		synctest.Wait()
		go func() { answers <- found(ctx, k, "b") }() // waits
		synctest.Wait()
		leave()
		if got := <-answers; got != "unavailable" {
			t.Errorf("the key b is %s for a caller that leaves", got)
		}
		wantFound(t, k, "b", "found")
		if got := <-answers; got != "found" {
			t.Errorf("the key b is %s for the caller that reads", got)
		}
	})
}
