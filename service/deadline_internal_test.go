package service

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
)

// attemptOfClients is how long the clients for Go, Python and TypeScript wait for an answer, unless
// the call itself waits or is large.
const attemptOfClients = 10 * time.Second

// A call that finds no room is refused while its caller is still there to repeat it, and one that
// finds room late has only the time that is left to its caller: the service works for nobody else.
// Proves G137.
func TestWeighed_WaitsNoLongerThanTheCaller(t *testing.T) {
	t.Parallel()
	for name, tried := range map[string]struct {
		header, value string
		free          time.Duration // after which there is room
		passed        bool
		within        time.Duration
	}{
		"without one": {within: attemptOfClients - time.Second},
		"of Connect":  {header: "Connect-Timeout-Ms", value: "2000", within: 2 * time.Second},
		"of gRPC":     {header: "Grpc-Timeout", value: "2S", within: 2 * time.Second},
		"room in time": {
			header: "Grpc-Timeout", value: "10000m", free: 3 * time.Second, passed: true,
			within: 3 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Service{
					limits:   newLimits(Limits{}, 1),
					budget:   newBudget(smallBytes*4, smallBytes, false),
					refusals: connect.NewErrorWriter(),
				}
				other := &room{budget: s.budget}
				if err := other.hold(t.Context(), smallBytes*4); err != nil {
					t.Fatal(err)
				}
				if tried.free > 0 {
					time.AfterFunc(tried.free, other.leave)
				}
				began, passed := time.Now(), false
				handler := s.admitted(s.weighed(http.HandlerFunc(
					func(_ http.ResponseWriter, r *http.Request) {
						passed = true
						ends, limited := r.Context().Deadline()
						if left := ends.Sub(began); limited && left != attemptOfClients {
							t.Errorf("the call has %v from its beginning on", left)
						}
						if !limited {
							t.Error("the call has no deadline")
						}
					})))
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
					"/stint.v1.TaskService/ListTasks", http.NoBody)
				r.ContentLength = smallBytes * 2
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set(tried.header, tried.value)
				handler.ServeHTTP(httptest.NewRecorder(), r)
				took := time.Since(began)
				if took > tried.within || passed != tried.passed {
					t.Errorf("after %v, passed on: %t", took, passed)
				}
			})
		})
	}
}
