package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A running service, with what a test needs of it.
type running struct {
	url    string
	pool   *pgxpool.Pool // of the test, on the same database
	store  *stint.Store
	output *processes.Buffer
	stop   func() error // as a signal does, once
}

func start(t *testing.T) *running {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen = %v", err)
	}
	ctx, signal := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &running{
		url: "http://" + listener.Addr().String(), pool: pool, store: store,
		output: &processes.Buffer{},
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, testdb.URL(pool), listener, r.output) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		signal()
		return <-ended
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("serve = %v", err)
		}
	})
	return r
}

// ask returns the status code, and the body.
func (r *running) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.url+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatalf("NewRequest = %v", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s %s = %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, strings.TrimSpace(string(text))
}

func (r *running) wantAnswer(t *testing.T, method, path, body string, code int, want string) {
	t.Helper()
	t.Helper()
	got, text := r.ask(t, method, path, body)
	if got != code || text != want {
		t.Errorf("%s %s %s = %d %s, want %d %s", method, path, body, got, text, code, want)
	}
}

// An order is charged while its request waits.
func TestService_Charges(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	r.wantAnswer(t, "POST", "/orders", `{"item":"tea","quantity":2}`,
		http.StatusCreated, `{"id":1,"item":"tea","quantity":2}`)
	charged := `{"id":1,"item":"tea","quantity":2,"receipt":"R-000001"}`
	r.wantAnswer(t, "GET", "/orders/1", "", http.StatusOK, charged)

	// Nobody needs the task any more.
	if _, err := r.store.DeleteTasks(t.Context(), []stint.TaskID{chargeID(1)}); err != nil {
		t.Errorf("DeleteTasks = %v", err)
	}
	r.wantAnswer(t, "GET", "/orders/1", "", http.StatusOK, charged)
	r.wantAnswer(t, "GET", "/orders/2", "", http.StatusNotFound,
		`{"error":"there is no such order"}`)
	for _, body := range []string{"", "{}", `{"item":"tea"}`, `{"item":"tea","quantity":-1}`} {
		r.wantAnswer(t, "POST", "/orders", body, http.StatusBadRequest,
			`{"error":"an order has an item and a quantity"}`)
	}
	if code, text := r.ask(t, "GET", "/ready", ""); code != http.StatusOK {
		t.Errorf("GET /ready = %d %s", code, text)
	}
}

// A request that waits for a task is released when the service stops, and holds nothing up.
func TestService_StopsWhileARequestWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	// The service has made its tables when it answers.
	r.ask(t, "GET", "/ready", "")
	insert(t, r.store, stint.Task{
		ID: chargeID(1), Action: string(Charge), PostResult: true,
		NotBefore: time.Now().Add(time.Hour),
	})
	type reply struct {
		code        int
		body, after string
	}
	replied := make(chan reply, 1)
	go func() {
		response, err := http.Get(r.url + "/orders/1")
		if err != nil {
			replied <- reply{body: err.Error()}
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		replied <- reply{response.StatusCode, string(text), response.Header.Get("Retry-After")}
	}()
	r.awaitWaiting(t)
	begun := time.Now()
	if err := r.stop(); err != nil {
		t.Errorf("serve = %v", err)
	}
	if took := time.Since(begun); took >= requestGrace {
		t.Errorf("the stop took %v, want less than %v", took, requestGrace)
	}
	if got := <-replied; got.code != http.StatusServiceUnavailable || got.after == "" {
		t.Errorf("the request that waits gets %+v, want 503", got)
	}
	want := "no more requests\nthe worker has ended\nthe store is closed\nthe pool is closed\n"
	if got := r.output.String(); got != want {
		t.Errorf("the parts end so:\n%s\nwant:\n%s", got, want)
	}
}

// awaitWaiting waits until somebody waits for the end of a task.
func (r *running) awaitWaiting(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		var waiting bool
		err := r.pool.QueryRow(ctx,
			"SELECT EXISTS (SELECT FROM stint.sessions WHERE 'finished' = ANY (topics))").
			Scan(&waiting)
		if err != nil {
			t.Fatalf("look for waiters = %v", err)
		}
		if waiting {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("nobody waits")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// The numbers of tasks and of performances are there.
func TestService_HasMetrics(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	r.ask(t, "POST", "/orders", `{"item":"tea","quantity":2}`)
	r.ask(t, "GET", "/orders/1", "")
	code, text := r.ask(t, "GET", "/metrics", "")
	if code != http.StatusOK {
		t.Fatalf("GET /metrics = %d %s", code, text)
	}
	for _, want := range []string{
		`stint_tasks{action="charge",state="completed"} 1`,
		`stint_worker_running{action="charge"} `,
		`stint_worker_performances_total{action="charge",outcome="completed"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("GET /metrics does not have %s:\n%s", want, text)
		}
	}
}

// The command of the README prints what docs/start.md shows.
func TestRun_PlacesAnOrderOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	address := testdb.URL(testdb.New(t))
	for _, id := range []string{"1", "2"} {
		var printed bytes.Buffer
		args := []string{"-once", "-database-url", address}
		if err := run(t.Context(), args, &printed); err != nil {
			t.Fatalf("run = %v", err)
		}
		lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
		charged := `{"id":` + id + `,"item":"tea","quantity":2,"receipt":"R-00000` + id + `"}`
		want := []string{
			`POST /orders {"item":"tea","quantity":2}`,
			`201 Created {"id":` + id + `,"item":"tea","quantity":2}`,
			`GET /orders/` + id,
			`200 OK ` + charged,
			"no more requests", "the worker has ended", "the store is closed",
			"the pool is closed",
		}
		if !slices.Equal(lines, want) {
			t.Errorf("run prints %s", printed.String())
		}
	}
}

// A service that cannot start says why, and does not wait for its client.
func TestRun_FailsWithoutADatabase(t *testing.T) {
	t.Parallel()
	args := []string{"-once", "-database-url", "postgres://127.0.0.1:1/app"}
	if err := run(t.Context(), args, io.Discard); err == nil {
		t.Error("run succeeds")
	}
}

func insert(t *testing.T, store *stint.Store, tasks ...stint.Task) {
	t.Helper()
	for i := range tasks {
		if tasks[i].Body == nil {
			tasks[i].Body, _ = json.Marshal(Order{ID: 1})
		}
	}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatalf("InsertTasks = %v", err)
	}
}
