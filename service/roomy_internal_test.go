package service

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/service/access"
)

// A read of the task store waits for room as large as the largest answer.
func TestGuard_BoundsAnswersOfTheTaskStore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s, _ := newService(t, Options{Limits: Limits{Bytes: answerBytesMax}})
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	guarded := s.Guard(access.TaskStore, http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {
			entered <- struct{}{}
			<-leave
		}))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			answer := httptest.NewRecorder()
			guarded.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(),
				http.MethodGet, "/group/g", http.NoBody))
			if answer.Code != http.StatusOK {
				t.Errorf("a read is answered with %d %s", answer.Code, answer.Body)
			}
		})
	}
	<-entered
	for waiting := 0; waiting == 0; {
		s.budget.mutex.Lock()
		waiting = len(s.budget.waiting)
		s.budget.mutex.Unlock()
	}
	if len(entered) > 0 {
		t.Error("two reads at once have room for one")
	}
	leave <- struct{}{}
	<-entered
	close(leave)
	both.Wait()
}
