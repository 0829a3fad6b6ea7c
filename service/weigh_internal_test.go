package service

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stint-tasks/stint/service/access"
)

// A request that announces more than a service reads takes no more room than the largest one, be it
// of a kind that the service knows or not: others find some beside it.
func TestWeighed_HoldsNoMoreThanIsRead(t *testing.T) {
	t.Parallel()
	const total, most = 8 << 20, 1 << 20
	s, _ := newService(t, Options{Limits: Limits{Bytes: total, RequestBytes: most}})
	inside := 0
	guarded := s.Guard(access.TaskStore, http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {
			inside++
			s.budget.mutex.Lock()
			defer s.budget.mutex.Unlock()
			if s.budget.held != 2*most {
				t.Errorf("%d bytes are held", s.budget.held)
			}
		}))
	other := &room{budget: s.budget}
	defer other.leave()
	if err := other.hold(t.Context(), most); err != nil {
		t.Fatal(err)
	}
	for _, announced := range []int64{most + 1, 1 << 40, math.MaxInt64} {
		for _, handler := range []http.Handler{guarded, s} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
				"/stint.v1.TaskService/GetStats", nil)
			r.Body, r.ContentLength = http.NoBody, announced
			r.Header.Set("Content-Type", "text/plain")
			answer, began := httptest.NewRecorder(), time.Now()
			handler.ServeHTTP(answer, r)
			took := time.Since(began)
			if answer.Code == http.StatusTooManyRequests || took > roomMax/2 {
				t.Errorf("%d bytes are answered by %d after %v", announced, answer.Code, took)
			}
		}
	}
	if inside != 3 {
		t.Errorf("%d requests were passed on, want 3", inside)
	}
}
