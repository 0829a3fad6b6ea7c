package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

func (r *running) wantLimited(t *testing.T, procedure, request string) {
	t.Helper()
	status, answer := r.post(t, procedure, request)
	if status != http.StatusTooManyRequests || answer["code"] != "resource_exhausted" {
		t.Errorf("a call too many = %d %v", status, answer)
	}
}

func TestLimits_RefuseCallsTooManyOfOnePrincipal(t *testing.T) {
	t.Parallel()
	const perDay = 1.0 / (24 * 60 * 60)
	r := startWith(t, service.Options{
		Authenticate: byName(t), Limits: service.Limits{Rate: perDay},
	})
	r.as("root").wantPosted(t, "TaskService/GetStats", `{}`, `{"pruning_behind":"0s"}`)
	r.as("root").wantLimited(t, "TaskService/GetStats", `{}`)
	r.as("keeper").wantPosted(t, "TaskService/GetStats", `{}`, `{"pruning_behind":"0s"}`)
}

// Calls that wait are limited for themselves: they keep no other call waiting.
func TestLimits_RefuseCallsThatWaitApartFromOthers(t *testing.T) {
	t.Parallel()
	r := startWith(t, service.Options{
		Authenticate: byName(t), Limits: service.Limits{Calls: 1, Waiting: 1},
	})
	const poll = `{"actor":"mailer-1","claim":17,"max_tasks":1,"actions":["mail"],` +
		`"lease":"60s","wait":"25s"}`
	waiting, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		request, err := http.NewRequestWithContext(waiting, http.MethodPost,
			r.address+"/stint.v1.WorkerService/OwnTasks", strings.NewReader(poll))
		if err != nil {
			ended <- err
			return
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer mailer")
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		ended <- err
	}()
	r.awaitTopic(t, "ready mail")
	r.as("mailer").wantLimited(t, "WorkerService/OwnTasks", poll)
	r.as("mailer").wantPosted(t, "WorkerService/ReturnTasks", `{}`, `{}`)
	stop()
	if err := <-ended; err == nil {
		t.Error("the call that waited was answered")
	}
}

// A client comes back when there is room again.
func TestLimits_AreOutlastedByTheClient(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startWith(t, service.Options{Limits: service.Limits{Rate: 2}})
	c := testservice.Client(t, r.address, client.Options{})
	for range 6 {
		_, err := c.Stats(t.Context())
		wantErr(t, "Stats", err, nil)
	}
}

func TestGuard_AsksForTheVerb(t *testing.T) {
	t.Parallel()
	r := startGuarded(t)
	s, err := service.New(r.pool, r.store, service.Options{Authenticate: byName(t)})
	wantErr(t, "New", err, nil)
	guarded := s.Guard("taskstore", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(service.Principal(r.Context()).Name))
	}))
	for token, want := range map[string]int{
		"root": http.StatusOK, "shop": http.StatusForbidden, "wrong": http.StatusUnauthorized,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/groups", nil)
		wantErr(t, "NewRequest", err, nil)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		guarded.ServeHTTP(answer, request)
		if answer.Code != want || want == http.StatusOK && answer.Body.String() != token {
			t.Errorf("%s gets %d %q, want %d", token, answer.Code, answer.Body.String(), want)
		}
	}
}

// streamUntil inserts tasks by a stream that pauses in the middle.
func streamUntil(t *testing.T, c *client.Client, name string, pause <-chan struct{}) error {
	t.Helper()
	_, err := c.InsertTasksFrom(t.Context(), func(yield func(stint.Task, error) bool) {
		for i := range 2000 { // of which the client sends the first thousand at once
			id := stint.TaskID(fmt.Sprint(name, "/", i))
			if i == 1500 {
				<-pause
			}
			if !yield(stint.Task{ID: id, Action: "mail"}, nil) {
				return
			}
		}
	})
	return err
}

// A principal that streams tasks leaves streams to others.
func TestLimits_LeaveStreamsToOtherPrincipals(t *testing.T) {
	t.Parallel()
	r := startWith(t, service.Options{Authenticate: byName(t)})
	shop, root := r.clientOf(t, "shop"), r.clientOf(t, "root")
	goOn, ended, now := make(chan struct{}), make(chan error), make(chan struct{})
	close(now)
	n := max(1, int(r.pool.Config().MaxConns)/4)
	for i := range n {
		go func() { ended <- streamUntil(t, shop, fmt.Sprint("shop/", i), goOn) }()
	}
	r.awaitStreams(t, n)
	err := streamUntil(t, shop, "shop/more", now)
	if err == nil || !strings.Contains(err.Error(), "over a limit") {
		t.Errorf("a stream too many of one principal = %v", err)
	}
	wantErr(t, "InsertTasksFrom of another principal", streamUntil(t, root, "other", now), nil)
	close(goOn)
	for range n {
		wantErr(t, "InsertTasksFrom", <-ended, nil)
	}
	wantErr(t, "InsertTasksFrom afterwards", streamUntil(t, shop, "shop/after", now), nil)
}

// Calls that stream tasks leave connections to others.
func TestLimits_LeaveConnectionsToCallsThatStreamNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startWith(t, service.Options{Limits: service.Limits{Streams: 1000}})
	c := testservice.Client(t, r.address, client.Options{})
	goOn, ended := make(chan struct{}), make(chan error)
	stream := func(name string, pause <-chan struct{}) error {
		return streamUntil(t, c, name, pause)
	}
	n := int(r.pool.Config().MaxConns) / 2
	for i := range n {
		go func() { ended <- stream(fmt.Sprint(i), goOn) }()
	}
	r.awaitStreams(t, n)
	err := c.InsertTasks(t.Context(), []stint.Task{{Action: "act"}})
	wantErr(t, "InsertTasks beside streams", err, nil)
	at := make(chan struct{})
	close(at)
	if err := stream("more", at); err == nil || !strings.Contains(err.Error(), "over a limit") {
		t.Errorf("a stream too many = %v", err)
	}
	close(goOn)
	for range n {
		wantErr(t, "InsertTasksFrom", <-ended, nil)
	}
	wantErr(t, "InsertTasksFrom afterwards", stream("more", at), nil)
}

// awaitStreams waits until so many transactions are open for streams.
func (r *running) awaitStreams(t *testing.T, want int) {
	t.Helper()
	for late := time.After(2 * time.Minute); ; {
		var n int
		err := r.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()
				AND (state LIKE 'idle in transaction%' OR state = 'active' AND query ILIKE 'copy %')
			`).Scan(&n)
		wantErr(t, "count", err, nil)
		if n >= want {
			return
		}
		select {
		case <-late:
			t.Fatalf("%d streams have begun, want %d", n, want)
		case <-time.After(time.Millisecond):
		}
	}
}
