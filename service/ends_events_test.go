package service_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/service"
)

// An eventing is a service whose streams of ends a test reads.
type eventing struct {
	*running
	of *service.Service
}

func newEventing(t *testing.T, limits service.Limits) *eventing {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{PollInterval: 20 * time.Millisecond})
	wantErr(t, "New", err, nil)
	of, err := service.New(pool, store, service.Options{Authenticate: byName(t), Limits: limits})
	wantErr(t, "New", err, nil)
	server := httptest.NewServer(of.EndEvents())
	t.Cleanup(func() {
		of.Drain() // without which the server would wait for the streams
		server.Close()
		wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
	})
	return &eventing{&running{store: store, pool: pool, address: server.URL}, of}
}

// complete inserts tasks of an action, and completes them one by one.
func (e *eventing) complete(t *testing.T, action string, ids ...stint.TaskID) {
	t.Helper()
	for _, id := range ids {
		wantErr(t, "InsertTasks", e.store.InsertTasks(t.Context(), []stint.Task{
			{ID: id, Action: action, PostResult: true},
		}), nil)
		owned, err := e.store.OwnTasks(t.Context(), "actor", 1, []string{action}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		_, err = e.store.ReturnTasks(t.Context(), []stint.Return{{
			ID: id, Token: owned[0].Token, Code: stint.StatusCompleted, Result: []byte("result"),
		}})
		wantErr(t, "ReturnTasks", err, nil)
	}
}

// An event is one of a stream, after which the last ID is known.
type event struct{ name, data, id string }

// events are those of a stream that a caller asks for.
type events struct {
	code  int
	kind  string
	lines *bufio.Scanner
}

func (e *eventing) follow(t *testing.T, name, from string, actions ...string) *events {
	t.Helper()
	query := url.Values{"from": {from}, "actions": actions}
	return e.get(t, name, query, "")
}

// get is a request, of a client that connects anew if it has a last ID.
func (e *eventing) get(t *testing.T, name string, query url.Values, last string) *events {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		e.address+"/ends?"+query.Encode(), http.NoBody)
	wantErr(t, "NewRequest", err, nil)
	request.Header.Set("Authorization", "Bearer "+name)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultClient.Do(request)
	wantErr(t, "GET", err, nil)
	t.Cleanup(func() { _ = response.Body.Close() })
	return &events{
		response.StatusCode, response.Header.Get("Content-Type"),
		bufio.NewScanner(response.Body),
	}
}

// next reads an event; false at the end of the stream. An ID alone is one, too.
func (e *events) next() (read event, ok bool) {
	for e.lines.Scan() {
		switch name, value, _ := strings.Cut(e.lines.Text(), ": "); name {
		case "event":
			read.name = value
		case "data":
			read.data = value
		case "id":
			read.id = value
		case "":
			if read != (event{}) {
				return read, true
			}
		}
	}
	return read, false
}

// want reads the ends of tasks, and the ID behind them.
func (e *events) want(t *testing.T, result string, ids ...string) (last string) {
	t.Helper()
	var told []string
	for len(told) < len(ids) || last == "" {
		read, ok := e.next()
		if !ok || read.name != "" {
			t.Fatalf("after %q, the stream ends with %+v", told, read)
		}
		if last = read.id; read.data == "" {
			continue
		}
		var task struct {
			ID     string
			Result []byte
		}
		wantErr(t, "Unmarshal", json.Unmarshal([]byte(read.data), &task), nil)
		if string(task.Result) != result {
			t.Errorf("the result of %s is %q, want %q", task.ID, task.Result, result)
		}
		told = append(told, task.ID)
	}
	if !slices.Equal(told, ids) {
		t.Errorf("the stream told %q, want %q", told, ids)
	}
	return last
}

// Each of several callers is told what they may read, each at their place, until the service
// drains. What was deleted before is not told.
//
// Proves G332.
func TestEndEvents_TellEachCallerWhatTheyMayRead(t *testing.T) {
	t.Parallel()
	e := newEventing(t, service.Limits{})
	e.complete(t, "mail", "gone", "mail/1")
	_, err := e.store.DeleteTasks(t.Context(), []stint.TaskID{"gone"})
	wantErr(t, "DeleteTasks", err, nil)
	e.complete(t, "bill", "bill/1")
	root, reader := e.follow(t, "root", ""), e.follow(t, "reader", "", "mail")
	spy := e.follow(t, "spy", "now", "mail")
	place := root.want(t, "result", "mail/1", "bill/1")
	reader.want(t, "", "mail/1")
	spy.want(t, "result") // is there
	e.complete(t, "bill", "bill/2")
	e.complete(t, "mail", "mail/2")
	root.want(t, "result", "bill/2", "mail/2")
	sealed := reader.want(t, "", "mail/2")
	spy.want(t, "result", "mail/2")
	again := e.follow(t, "root", place)
	again.want(t, "result", "bill/2", "mail/2")
	if of := e.follow(t, "spy", sealed, "mail"); of.code != http.StatusBadRequest {
		t.Errorf("the place of another caller gives %d", of.code)
	}
	e.of.Drain()
	for _, one := range []*events{root, reader, spy, again} {
		for read, ok := one.next(); ok; read, ok = one.next() {
			if read.data != "" {
				t.Errorf("the drain tells %+v", read)
			}
		}
		wantErr(t, "the end of the stream", one.lines.Err(), nil)
	}
	last := e.follow(t, "root", "")
	if read, ok := last.next(); ok || last.kind != "text/event-stream" {
		t.Errorf("a service that drains gives %+v, %q", read, last.kind)
	}
}

// Whoever follows is told when ends have been pruned that they were not told, at the beginning and
// later, and that they have too many streams.
//
// Proves G332.
func TestEndEvents_SayWhyTheyEnd(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const most = 50
	for range most {
		if sayWhyTheyEnd(t) {
			return
		}
	}
	t.Error("each time another stream took the only place while the first one did not wait")
}

// sayWhyTheyEnd is false if the first stream was refused in favor of another.
func sayWhyTheyEnd(t *testing.T) bool {
	t.Helper()
	isRefused := func(read event) bool {
		return read.name == "error" && strings.Contains(read.data, "resource_exhausted")
	}
	e := newEventing(t, service.Limits{Waiting: 1})
	e.complete(t, "mail", "mail/1")
	first := e.follow(t, "root", "")
	place := first.want(t, "result", "mail/1")
	// Once the first one waits, there is no room for another.
	for code := 0; code != http.StatusTooManyRequests; {
		second := e.follow(t, "root", "now")
		code = second.code
		if read, ok := second.next(); ok && read.name != "error" && read.data != "" {
			t.Errorf("the second stream tells %+v", read)
		}
	}
	anew := e.get(t, "root", nil, place)
	if read, _ := anew.next(); anew.code != http.StatusOK || !isRefused(read) {
		t.Errorf("a client that connects anew gets %d, %+v", anew.code, read)
	}
	_, err := e.pool.Exec(t.Context(), `INSERT INTO stint.pruning (told_at, pruned_to)
		VALUES (clock_timestamp(), clock_timestamp() + interval '1 hour')`)
	wantErr(t, "Exec", err, nil)
	read, ok := first.next()
	for ; ok && read.id != ""; read, ok = first.next() {
		place = read.id
	}
	if isRefused(read) {
		return false
	}
	if read.name != "error" || !strings.Contains(read.data, "pruned") ||
		!strings.Contains(read.data, "out_of_range") {
		t.Errorf("the stream ends with %+v", read)
	}
	const most = 1000
	for range most { // until the first one has left
		anew = e.get(t, "root", nil, place)
		if anew.lines.Scan(); anew.code != http.StatusOK {
			break
		}
	}
	if anew.code != http.StatusBadRequest || !strings.Contains(anew.lines.Text(), "out_of_range") {
		t.Errorf("from %s, behind which ends were pruned, the answer is %d %s", place, anew.code,
			anew.lines.Text())
	}
	return true
}
