package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// tally counts the calls of a service by procedure and code, and those under way.
type tally struct {
	mutex   sync.Mutex
	ended   map[string]int
	running map[string]int
}

func newTally() *tally { return &tally{ended: map[string]int{}, running: map[string]int{}} }

func (c *tally) Begin(procedure string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.running[procedure]++
}

func (c *tally) End(procedure, code string, took time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.running[procedure]--
	if took <= 0 {
		code += " in no time"
	}
	c.ended[procedure+" "+code]++
}

// await waits until the calls are those wanted, since one ends a little after its answer.
func (c *tally) await(t *testing.T, what string, get func() bool) {
	t.Helper()
	for end := time.After(2 * time.Minute); ; {
		c.mutex.Lock()
		reached := get()
		state := fmt.Sprintf("ended: %v, under way: %v", c.ended, c.running)
		c.mutex.Unlock()
		if reached {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-end:
			t.Fatalf("%s: %s", what, state)
		}
	}
}

func (c *tally) awaitEnded(t *testing.T, want map[string]int) {
	t.Helper()
	c.await(t, fmt.Sprintf("want %v", want), func() bool { return maps.Equal(c.ended, want) })
}

const (
	getTasks = stintv1connect.TaskServiceGetTasksProcedure
	insert   = stintv1connect.TaskServiceInsertTasksProcedure
)

// Whatever comes of a request, it is one call of a known procedure, with the code that is sent.
func TestMetrics_ReceiveEveryRequest(t *testing.T) {
	t.Parallel()
	counts := newTally()
	var log safeBuffer
	r := startWith(t, service.Options{
		Metrics: counts, Authenticate: byName(t), Limits: service.Limits{RequestBytes: 1000},
		AccessLog: slog.New(slog.NewTextHandler(&log, nil)),
	})
	root := r.as("root")
	send := func(r *running, verb, body string) {
		r.send(t, verb, "application/json", strings.NewReader(body))
	}
	const task = `{"tasks":[{"id":"secret-id","action":"mail","text":"secret-text"}]}`
	send(root, "TaskService/InsertTasks", task)                            // ok
	send(root, "TaskService/InsertTasks", task)                            // already_exists
	send(root, "TaskService/InsertTasks", `{"max_trys":3}`)                // no request
	send(root, "TaskService/InsertTasks", strings.Repeat(" ", 2000))       // too large
	send(r.as("wrong"), "TaskService/GetTasks", `{}`)                      // who?
	send(r.as("reader"), "TaskService/InsertTasks", task)                  // may not
	send(root, "TaskService/"+strings.Repeat("x", 10), `{}`)               // no procedure
	r.as("root").send(t, "TaskService/GetTasks", "text/html", http.NoBody) // no protocol
	want := map[string]int{
		insert + " ok": 1, insert + " already_exists": 1, insert + " invalid_argument": 2,
		getTasks + " unauthenticated": 1, insert + " permission_denied": 1,
		"other unimplemented": 1, getTasks + " unimplemented": 1,
	}
	counts.awaitEnded(t, want)
	callByGRPC(t, r.address)
	want[getTasks+" not_found"] = 2
	want[getTasks+" invalid_argument"] = 2
	counts.awaitEnded(t, want)

	text := log.String()
	for _, part := range []string{
		"level=INFO msg=call procedure=" + insert + " principal=root code=ok took=",
		fmt.Sprintf("bytes=%d\n", len(task)),
		"procedure=" + getTasks + ` principal="" code=unauthenticated`,
		"procedure=" + insert + " principal=reader code=permission_denied",
		"procedure=other principal=root code=unimplemented",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the log lacks %q:\n%s", part, text)
		}
	}
	for _, part := range []string{"secret", "Bearer", "xxxxx"} {
		if strings.Contains(text, part) {
			t.Errorf("the log has %q:\n%s", part, text)
		}
	}
}

// callByGRPC makes two calls of GetTasks by gRPC and two by gRPC-Web: for a task that is not there,
// and with no message.
func callByGRPC(t *testing.T, address string) {
	t.Helper()
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	asRoot := bearer{"root", transport}
	for name, options := range map[string][]connect.ClientOption{
		"gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		verbs := stintv1connect.NewTaskServiceClient(
			&http.Client{Transport: asRoot}, address, options...)
		_, err := verbs.GetTasks(t.Context(), &stintv1.GetTasksRequest{Ids: []string{"none"}})
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("by %s: GetTasks = %v", name, err)
		}
	}
	for _, kind := range []string{"application/grpc", "application/grpc-web"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			address+getTasks, strings.NewReader("\x00\x00\x00\x00\x01\xff")) // no message
		wantErr(t, "NewRequest", err, nil)
		request.Header.Set("Content-Type", kind)
		response, err := asRoot.RoundTrip(request)
		wantErr(t, "RoundTrip", err, nil)
		_, err = io.ReadAll(response.Body)
		wantErr(t, "Read", errors.Join(err, response.Body.Close()), nil)
	}
}

// A call that waits and a stream are under way until they end.
func TestMetrics_ShowWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	counts := newTally()
	r := startWith(t, service.Options{Metrics: counts})
	c := testservice.Client(t, r.address, client.Options{})
	wantErr(t, "RegisterActor", c.RegisterActor(t.Context(), "actor", []string{"act"}), nil)
	ctx, leave := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := c.WaitToOwnTasks(ctx, "actor", 1, []string{"act"}, time.Minute)
		waited <- err
	}()
	const own, attend = stintv1connect.WorkerServiceOwnTasksProcedure,
		stintv1connect.WorkerServiceAttendProcedure
	counts.await(t, "want a call that waits and a stream", func() bool {
		return counts.running[own] == 1 && counts.running[attend] == 1
	})
	leave()
	wantErr(t, "WaitToOwnTasks", <-waited, context.Canceled)
	wantErr(t, "UnregisterActor", c.UnregisterActor(t.Context(), "actor"), nil)
	counts.await(t, "want nothing under way", func() bool {
		return counts.running[own] == 0 && counts.running[attend] == 0 &&
			counts.ended[own+" canceled"] == 1
	})
}

// Interceptors of the caller see the errors that are sent.
func TestInterceptors_SeeWhatIsSent(t *testing.T) {
	t.Parallel()
	codes := make(chan string, 10)
	see := func(name string) connect.Interceptor {
		return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(
				ctx context.Context, request connect.AnyRequest,
			) (connect.AnyResponse, error) {
				response, err := next(ctx, request)
				codes <- name + " " + connect.CodeOf(err).String()
				return response, err
			}
		})
	}
	r := startWith(t, service.Options{
		Interceptors: []connect.Interceptor{see("outer"), see("inner")},
	})
	r.post(t, "TaskService/GetTasks", `{"ids":["none"]}`)
	if inner, outer := <-codes, <-codes; inner != "inner not_found" || outer != "outer not_found" {
		t.Errorf("seen: %s, %s", inner, outer)
	}
}

// A safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}

// A database that is away is one warning, not one for each call.
func TestLogger_CountsCallsThatFail(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	pool := testdb.New(t)
	r := startOn(t, pool, service.Options{Logger: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	pool.Close()
	const each = 10
	for range each {
		r.send(t, "TaskService/GetTasks", "application/json", strings.NewReader(`{"ids":["a"]}`))
		r.send(t, "TaskService/AbortTasks", "application/json", strings.NewReader(`{"ids":["a"]}`))
	}
	count := func(part string) int { return strings.Count(log.String(), part) }
	if warnings, all := count("level=WARN"), count(`msg="call failed"`); warnings != 1 ||
		all != 2*each {
		t.Errorf("%d warnings, %d records, want 1 and %d:\n%s", warnings, all, 2*each,
			log.String())
	}
	wantErr(t, "stop", r.stop(), nil)
	if count("level=WARN") != 2 || count("failures=19") != 1 {
		t.Errorf("at the end, want one more warning with the count:\n%s", log.String())
	}
}

// failingMetrics fail in each call.
type failingMetrics struct{ fail func() }

func (m failingMetrics) Begin(string)                      { m.fail() }
func (m failingMetrics) End(string, string, time.Duration) { m.fail() }

// Proves G110.
func TestMetrics_ThatFailDoNotFailCalls(t *testing.T) {
	t.Parallel()
	for _, fail := range []func(){func() { panic("ouch") }, runtime.Goexit} {
		r := startWith(t, service.Options{
			Metrics: failingMetrics{fail}, Logger: slog.New(slog.DiscardHandler),
		})
		for range 3 {
			r.wantPosted(t, "TaskService/ListTasks", `{}`, `{}`)
		}
	}
}
