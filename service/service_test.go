package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A running service, as curl sees it.
type running struct {
	store   *stint.Store
	pool    *pgxpool.Pool
	address string
	stop    func() error
	token   string // of the caller; empty for none
	reason  string // of what it changes; empty, with author: nothing is noted
	author  string // for whom it changes it
}

func start(tb testing.TB) *running {
	tb.Helper()
	return startWith(tb, service.Options{})
}

func startWith(tb testing.TB, options service.Options) *running {
	tb.Helper()
	return startOn(tb, testdb.New(tb), options)
}

func startOn(tb testing.TB, pool *pgxpool.Pool, options service.Options) *running {
	tb.Helper()
	store, err := stint.New(pool, stint.Options{PollInterval: 20 * time.Millisecond})
	if err != nil {
		tb.Fatalf("New = %v", err)
	}
	tb.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Errorf("Close = %v", err)
		}
	})
	address, stop := testservice.Start(tb, pool, store, options)
	return &running{store: store, pool: pool, address: address, stop: stop}
}

// post calls a verb as curl does, and returns the status and the answer.
func (r *running) post(t *testing.T, verb, body string) (int, map[string]any) {
	t.Helper()
	code, text := r.send(t, verb, "application/json", strings.NewReader(body))
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s answers %q: %v", verb, text, err)
	}
	return code, answer
}

func (r *running) send(t *testing.T, verb, kind string, body io.Reader) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		r.address+"/stint.v1."+verb, body)
	if err != nil {
		t.Fatalf("NewRequest = %v", err)
	}
	request.Header.Set("Content-Type", kind)
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.reason != "" {
		request.Header.Set("Stint-Reason", url.PathEscape(r.reason))
	}
	if r.author != "" {
		request.Header.Set("Stint-Author", r.author)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	return response.StatusCode, text
}

func (r *running) wantPosted(t *testing.T, verb, body, want string) {
	t.Helper()
	code, text := r.send(t, verb, "application/json", strings.NewReader(body))
	var got bytes.Buffer
	err := json.Compact(&got, text)
	if err != nil || code != http.StatusOK || got.String() != want {
		t.Errorf("%s %s = %d %s, want %s", verb, body, code, text, want)
	}
}

// The whole life of a task by JSON over HTTP/1.1, without base64.
func TestService_SpeaksJSON(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.wantPosted(t, "TaskService/InsertTasks",
		`{"tasks":[{"id":"a","action":"mail","text":"{\"to\":1234}","post_result":true}]}`,
		`{"ids":["a"]}`)
	code, answer := r.post(t, "WorkerService/OwnTasks", `{"actor":"curl","session":1,"claim":17,`+
		`"max_tasks":1,"actions":["mail"],"lease":"60s","text":true}`)
	if code != http.StatusOK {
		t.Fatalf("OwnTasks = %d %v", code, answer)
	}
	task := answer["tasks"].([]any)[0].(map[string]any) //nolint:forcetypeassert // the test fails
	if task["id"] != "a" || task["text"] != `{"to":1234}` {
		t.Errorf("OwnTasks gives %v", task)
	}
	r.wantPosted(t, "WorkerService/ReturnTasks", fmt.Sprintf(`{"returns":[{"id":"a","token":%q,`+
		`"code":"completed","result_text":"sent"}]}`, task["token"]), `{"verdicts":[{}]}`)
	code, answer = r.post(t, "TaskService/WaitForTasks", `{"ids":["a"],"text":true}`)
	if code != http.StatusOK || answer["finished"] != true {
		t.Errorf("WaitForTasks = %d %v", code, answer)
	}
	code, answer = r.post(t, "TaskService/GetTasks", `{"ids":["a"],"text":true}`)
	found := fmt.Sprint(answer)
	if code != http.StatusOK || !strings.Contains(found, "result_text:sent") {
		t.Errorf("GetTasks = %d %v", code, answer)
	}
}

// Whatever is wrong with a call is said, and nothing is inserted.
func TestService_RefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	const insert = "TaskService/InsertTasks"
	for body, want := range map[string]string{
		`{"tasks":[{"id":"a","action":"x","max_trys":3}]}`: "invalid_argument",
		`{"task":[]}`:            "invalid_argument",
		`{"tasks":[{"id":"a"}]}`: "invalid_argument",
		`{"tasks":[{"id":"a","action":"x","priority":40000}]}`:                "invalid_argument",
		`{"tasks":[{"id":"a","action":"x","on_abort":"ignore"}]}`:             "invalid_argument",
		`{"tasks":[{"id":"a","action":"x"},{"id":"b","action":"x"}`:           "invalid_argument",
		`{"tasks":[{"id":"a","action":"x","after":["nobody"]}]}`:              "not_found",
		`{"tasks":[{"id":"a","action":"x"},{"id":"a","action":"x"}]}`:         "already_exists",
		`{"tasks":[{"id":"a","action":"x","body":"?"}]}`:                      "invalid_argument",
		`{"tasks":[{"id":"a","action":"x","text":"","body":""}]}`:             "invalid_argument",
		`{"tasks":[{"id":"a","action":"x","not_before":"tomorrow morning"}]}`: "invalid_argument",
	} {
		for _, kind := range []string{"application/json", "application/json; charset=utf-8"} {
			code, text := r.send(t, insert, kind, strings.NewReader(body))
			if code == http.StatusOK || !strings.Contains(string(text), `"code":"`+want+`"`) {
				t.Errorf("%s = %d %s, want %s", body, code, text, want)
			}
		}
	}
	large := io.MultiReader(strings.NewReader(`{"tasks":[{"id":"a","action":"x","text":"`),
		strings.NewReader(strings.Repeat("x", 66<<20)), strings.NewReader(`"}]}`))
	body, err := io.ReadAll(large)
	if err != nil {
		t.Fatal(err)
	}
	code, text := r.send(t, insert, "application/json", bytes.NewReader(body))
	said := string(text)
	if code != http.StatusBadRequest || !strings.Contains(said, "too large") ||
		!strings.Contains(said, `"code":"invalid_argument"`) {
		t.Errorf("a large request = %d %.200s", code, text)
	}
	page, err := r.store.ListTasks(t.Context(), stint.Filter{})
	if err != nil || len(page.Tasks) > 0 {
		t.Errorf("ListTasks = %+v, %v, want no tasks", page.Tasks, err)
	}
}

// A task is completed and its successor inserted in one commit, or neither.
func TestTransact_DoesAllOrNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	c := testservice.Client(t, r.address, client.Options{})
	ctx := t.Context()
	err := c.InsertTasks(ctx, []stint.Task{{ID: "a", Action: "act"}, {ID: "b", Action: "act"}})
	wantErr(t, "InsertTasks", err, nil)
	owned, err := c.OwnTasks(ctx, "actor", 2, []string{"act"}, time.Hour)
	if err != nil || len(owned) != 2 {
		t.Fatalf("OwnTasks = %+v, %v", owned, err)
	}
	completes := stint.Return{ID: "a", Token: owned[0].Token, Code: stint.StatusCompleted}
	next := []stint.Task{{ID: "next", Action: "act", After: []stint.TaskID{"b"}}}
	_, err = c.Transact(ctx, client.Transaction{
		Hold: owned, Insert: next, Return: []stint.Return{completes, {
			ID: "b", Token: owned[0].Token, Code: stint.StatusCompleted, // of another task
		}},
	})
	wantErr(t, "Transact", err, stint.ErrInvalidToken)
	_, err = c.Transact(ctx, client.Transaction{MustExist: []stint.TaskID{"nobody"}, Insert: next})
	wantErr(t, "Transact", err, stint.ErrTaskNotFound)
	_, err = r.store.GetTasks(ctx, []stint.TaskID{"next"})
	wantErr(t, "GetTasks of a task that was not inserted", err, stint.ErrTaskNotFound)
	_, err = c.Transact(ctx, client.Transaction{
		Hold: owned, MustExist: []stint.TaskID{"b"}, Insert: next,
		Return: []stint.Return{completes},
	})
	wantErr(t, "Transact", err, nil)
	infos, err := r.store.GetTasks(ctx, []stint.TaskID{"a", "next"})
	if err != nil || infos[0].State != stint.StateCompleted ||
		infos[1].State != stint.StateBlocked {
		t.Errorf("GetTasks = %+v, %v", infos, err)
	}
}

// The owner of a task has another one debounced, which may be its own, in one commit.
func TestTransact_DebouncesTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	c := testservice.Client(t, r.address, client.Options{})
	ctx := t.Context()
	err := c.InsertTasks(ctx, []stint.Task{{ID: "a", Action: "act"}})
	wantErr(t, "InsertTasks", err, nil)
	owned, err := c.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %+v, %v", owned, err)
	}
	var calls []client.Debounced
	for _, id := range []stint.TaskID{"a", "index", "index"} {
		calls = append(calls, client.Debounced{
			Task:  stint.Task{ID: id, Action: "act", Body: fmt.Append(nil, len(calls))},
			Quiet: time.Hour, AtMost: time.Hour,
		})
	}
	lost := stint.Return{ID: "a", Code: stint.StatusCompleted}
	_, err = c.Transact(ctx, client.Transaction{Debounce: calls, Return: []stint.Return{lost}})
	wantErr(t, "Transact", err, stint.ErrInvalidToken)
	for _, id := range []stint.TaskID{"index", "a+"} {
		_, err = r.store.GetTasks(ctx, []stint.TaskID{id})
		wantErr(t, "GetTasks of a task that was not inserted", err, stint.ErrTaskNotFound)
	}
	completes := stint.Return{ID: "a", Token: owned[0].Token, Code: stint.StatusCompleted}
	_, err = c.Transact(ctx, client.Transaction{Debounce: calls, Return: []stint.Return{completes}})
	wantErr(t, "Transact", err, nil)
	infos, err := r.store.GetTasks(ctx, []stint.TaskID{"a", "a+", "index"})
	if err != nil || infos[0].State != stint.StateCompleted ||
		infos[1].State != stint.StateScheduled || infos[2].State != stint.StateScheduled ||
		string(infos[2].Body) != "2" {
		t.Errorf("GetTasks = %+v, %v", infos, err)
	}
	calls[0].AtMost = 0
	_, err = c.Transact(ctx, client.Transaction{Debounce: calls})
	wantErr(t, "Transact without a time", err, stint.ErrInvalidArgument)
	_, err = c.Transact(ctx, client.Transaction{Debounce: make([]client.Debounced, 1001)})
	wantErr(t, "Transact of too many", err, stint.ErrTooLarge)
}

// Calls that wait are answered when the service stops, and those behind them look elsewhere.
func TestService_StopsThoughCallsWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	err := r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", PostResult: true, NotBefore: time.Now().Add(time.Hour)},
	})
	wantErr(t, "InsertTasks", err, nil)
	answered := make(chan string, 2)
	for verb, body := range map[string]string{
		"TaskService/WaitForTasks": `{"ids":["a"]}`,
		"WorkerService/OwnTasks": `{"actor":"curl","claim":17,"max_tasks":1,"actions":["act"],` +
			`"lease":"60s","wait":"25s"}`,
	} {
		go func() {
			code, text := r.send(t, verb, "application/json", strings.NewReader(body))
			answered <- fmt.Sprintf("%d %s", code, text)
		}()
	}
	r.awaitTopic(t, "finished")
	r.awaitTopic(t, "ready act")
	wantErr(t, "stop", r.stop(), nil)
	for range 2 {
		if got := <-answered; got != "200 {}" {
			t.Errorf("a call that waits is answered by %s, want 200 {}", got)
		}
	}
}

// awaitTopic waits until a session wants to be told of a topic.
func (r *running) awaitTopic(t *testing.T, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		var wanted bool
		err := r.pool.QueryRow(ctx, `SELECT EXISTS (
			SELECT FROM stint.sessions WHERE $1 = ANY (topics))`, topic).Scan(&wanted)
		if err != nil {
			t.Fatalf("look for who waits = %v", err)
		}
		if wanted {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("nobody waits for %q", topic)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestNew_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if _, err := service.New(nil, nil, service.Options{}); err == nil {
		t.Error("New takes no store")
	}
	r := start(t)
	if _, err := service.New(r.pool, r.store, service.Options{Grace: -1}); err == nil {
		t.Error("New takes a negative grace")
	}
}

func wantErr(tb testing.TB, call string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Fatalf("%s = %v, want %v", call, got, want)
	}
}
