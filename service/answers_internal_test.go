package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// While others are under way, a request waits without a body as well, and however its wait ends, it
// is not told that its answer took effect.
func TestAnswers_ThatWaitAreNotTakenForMade(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s, _ := newService(t, Options{})
	underWay := make(chan struct{}, 1)
	underWay <- struct{}{}
	answers := s.answers(make(chan struct{}, answersHeldMax), underWay)
	const query = "/?id=none&code=completed&key=0123456789abcdef"

	ended, end := context.WithCancel(t.Context())
	end()
	answer := httptest.NewRecorder()
	answers.ServeHTTP(answer, httptest.NewRequestWithContext(ended, http.MethodPost, query, nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("a request that ends while it waits is answered by %d", answer.Code)
	}

	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	time.AfterFunc(answerSentMax+time.Second, func() { <-underWay })
	response, err := http.Post(server.URL+query, "", http.NoBody) // with Content-Length: 0
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("a request that waits for long is answered by %s", response.Status)
	}
}
