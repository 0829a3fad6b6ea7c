package client_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service"
)

// A busyService is a service that has no time for the first request, and answers the next ones with
// an error.
type busyService struct {
	retryAfter string
	requests   int
}

func (s *busyService) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests++
	refusal := connect.NewError(connect.CodeNotFound, errors.New("answered"))
	if s.requests == 1 {
		refusal = connect.NewError(connect.CodeResourceExhausted, errors.New("too many calls"))
		detail, err := connect.NewErrorDetail(&stintv1.ErrorDetail{Kind: wire.Limited})
		if err != nil {
			return nil, err
		}
		refusal.AddDetail(detail)
		refusal.Meta().Set("Retry-After", s.retryAfter)
	}
	w := httptest.NewRecorder()
	err := connect.NewErrorWriter().Write(w, r, refusal)
	return w.Result(), err
}

// failing is a service whose database fails a fetch, and that then does not know the client.
type failing struct{ released chan struct{} }

func (s failing) RoundTrip(r *http.Request) (*http.Response, error) {
	refusal := connect.NewError(connect.CodeInternal, errors.New("the disk is full"))
	if strings.HasSuffix(r.URL.Path, "/ReleaseClaim") {
		close(s.released)
		refusal = connect.NewError(connect.CodeUnauthenticated, errors.New("who are you?"))
	}
	w := httptest.NewRecorder()
	err := connect.NewErrorWriter().Write(w, r, refusal)
	return w.Result(), err
}

// What a fetch that failed may have fetched is released, and a failure of that is logged.
func TestOwnTasks_ReleasesWhatFailed(t *testing.T) {
	t.Parallel()
	service := failing{make(chan struct{})}
	var log bytes.Buffer
	c, err := client.New("http://localhost", client.Options{
		HTTPClient: &http.Client{Transport: service},
		Logger:     slog.New(slog.NewTextHandler(&log, nil)),
	})
	wantErr(t, "New", err, nil)
	if _, err := c.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour); err == nil {
		t.Error("OwnTasks did not fail")
	}
	<-service.released
	wantErr(t, "Close", c.Close(t.Context()), nil) // waits for the release
	if !strings.Contains(log.String(), "their leases expire") {
		t.Errorf("the log has %q", log.String())
	}
}

// A client that has made too many calls waits as long as the service says, but not if that is
// longer than it repeats a call.
func TestCalls_WaitAsLongAsTheServiceSays(t *testing.T) {
	t.Parallel()
	for retryAfter, want := range map[string]struct {
		requests       int
		atLeast, below time.Duration
	}{
		"3":       {2, 3 * time.Second, 4 * time.Second},
		"60":      {1, 0, time.Second},
		"Tuesday": {2, 0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			service := &busyService{retryAfter: retryAfter}
			c, err := client.New("http://localhost", client.Options{
				HTTPClient: &http.Client{Transport: service},
			})
			wantErr(t, "New", err, nil)
			began := time.Now()
			_, err = c.Stats(t.Context())
			took := time.Since(began)
			if err == nil || service.requests != want.requests || took < want.atLeast ||
				took >= want.below {
				t.Errorf("Retry-After: %s: %d requests in %v, the last %v, want %d",
					retryAfter, service.requests, took, err, want.requests)
			}
			wantErr(t, "Close", c.Close(t.Context()), nil)
		})
	}
}

// A turncoat is a service whose answer to the first request is lost, and that does not know the
// client afterwards.
type turncoat struct{ requests int }

func (s *turncoat) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.requests++; s.requests == 1 {
		return nil, errors.New("the answer is lost")
	}
	w := httptest.NewRecorder()
	refusal := connect.NewError(connect.CodeUnauthenticated, errors.New("who are you?"))
	err := connect.NewErrorWriter().Write(w, r, refusal)
	return w.Result(), err
}

// A refusal says nothing of the attempt before it, whose answer was lost.
func TestInsertTasks_RefusedAfterALostAnswerMayHaveTakenPlace(t *testing.T) {
	t.Parallel()
	c, err := client.New("http://service.test", client.Options{
		HTTPClient: &http.Client{Transport: &turncoat{}},
	})
	wantErr(t, "New", err, nil)
	err = c.InsertTasks(t.Context(), []stint.Task{{ID: "a", Action: "act"}})
	wantErr(t, "InsertTasks", err, client.ErrUnavailable)
	if errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "who are you?") {
		t.Errorf("InsertTasks = %v", err)
	}
}

// Over HTTP/1.1, the service is told of a repetition, too: Go's transport makes none by itself when
// it loses a connection that it has used before.
func TestInsertTasks_OfHTTP1IsRepeatedByTheClientAlone(t *testing.T) {
	t.Parallel()
	r := newRemote(t, stint.Options{})
	of, err := service.New(r.pool, r.store, service.Options{})
	wantErr(t, "New", err, nil)
	var inserts []string // whether each is a repetition
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/InsertTasks") {
			of.ServeHTTP(w, r)
			return
		}
		if inserts = append(inserts, r.Header.Get(wire.RepeatedHeader)); len(inserts) > 1 {
			of.ServeHTTP(w, r)
			return
		}
		of.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the connection is closed without an answer
	}))
	t.Cleanup(server.Close)
	c := testservice.Client(t, server.URL, client.Options{HTTPClient: server.Client()})
	_, err = c.Stats(t.Context()) // so that there is a connection
	wantErr(t, "Stats", err, nil)
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act"},
	}), nil)
	if want := []string{"false", "true"}; !slices.Equal(inserts, want) {
		t.Errorf("the service is asked with %q, want %q", inserts, want)
	}
}
