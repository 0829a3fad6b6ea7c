package service

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/service/access"
)

// A page waits for room in the name of the caller. If there is none, the answer is a stream that
// ends, after which a browser connects anew; after any other it would not.
func TestEndEvents_WithoutRoomAreToBeAskedForAnew(t *testing.T) {
	t.Parallel()
	c := newCrowded(t) // with room for 1.5 MiB
	err := c.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", PostResult: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	owned, err := c.store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.store.ReturnTasks(t.Context(), []stint.Return{{
		ID: "a", Token: owned[0].Token, Code: stint.StatusCompleted, Result: make([]byte, 1<<20),
	}})
	if err != nil {
		t.Fatal(err)
	}
	grants, err := access.Parse([]byte("ann: [{verbs: [\"*\"], actions: [\"*\"]}]"))
	if err != nil {
		t.Fatal(err)
	}
	for name, log := range map[string]*slog.Logger{
		"observed": slog.New(slog.DiscardHandler), "not observed": nil,
	} {
		s, err := New(c.pool, c.store, Options{
			Limits: Limits{Bytes: 3 << 19}, AccessLog: log,
			Authenticate: func(*http.Request) (*access.Principal, error) {
				return grants.Principal("ann"), nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		other := &room{budget: s.budget} // that leaves room for the answer, but not for its text
		if err := other.hold(t.Context(), 1<<18); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			of := crowded{Service: s}
			of.await(t, "the page waits for room as ann", func(b *budget) bool {
				return len(b.waiting) == 1 && b.waiting[0].name == "ann"
			})
			cancel()
		}()
		answer := httptest.NewRecorder()
		s.EndEvents().ServeHTTP(answer,
			httptest.NewRequestWithContext(ctx, http.MethodGet, "/ends", nil))
		kind := answer.Result().Header.Get("Content-Type")
		if answer.Code != http.StatusOK || kind != "text/event-stream" || answer.Body.Len() > 0 {
			t.Errorf("%s: the answer is %d of %q, %d bytes", name, answer.Code, kind,
				answer.Body.Len())
		}
		other.leave()
	}
}
