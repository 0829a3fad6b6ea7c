package ui_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// Wherever the handler is mounted, all pages are there, and each thing that they name, too.
func TestHandler_IsMountedAnywhere(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a/b", Action: "mail"},
		stint.Task{ID: "c", Action: "mail", After: []stint.TaskID{"a/b"}})
	pages := ui.New(store, ui.Options{})
	mux := http.NewServeMux()
	mux.Handle("/whole/path/", pages)
	mux.Handle("/cut/", http.StripPrefix("/cut", pages))
	mux.Handle("/short/", http.StripPrefix("/short/", pages))
	for _, mount := range []struct {
		name, prefix string
		handler      http.Handler
	}{
		{"at the root", "/", pages},
		{"below a path", "/whole/path/", mux},
		{"below a path that is stripped", "/cut/", mux},
		{"below a path that is stripped with its slash", "/short/", mux},
	} {
		for _, name := range pageNames("a/b") {
			if strings.HasPrefix(name, "value") || strings.HasPrefix(name, "layout") {
				continue
			}
			target := mount.prefix + name
			for _, link := range parse(t, text(t, mount.handler, target)).links {
				if link == "begin-check" { // to which a form is sent
					continue
				}
				at, err := url.Parse(target)
				wantNil(t, err)
				to, err := at.Parse(link)
				wantNil(t, err)
				if strings.HasPrefix(link, "/") || to.Host != at.Host {
					t.Errorf("%s, %s names %q", mount.name, name, link)
				}
				response := get(t, mount.handler, to.RequestURI())
				if response.StatusCode != http.StatusOK {
					t.Errorf("%s, %s names %q: %s", mount.name, name, link, response.Status)
				}
			}
		}
	}
}

// Without the slash of the folder, links would lead out of it.
func TestHandler_LeadsIntoItsFolder(t *testing.T) {
	t.Parallel()
	h := http.StripPrefix("/stint", ui.New(aFake{}, ui.Options{}))
	response := get(t, h, "/stint")
	if got := response.Header.Get("Location"); got != "./stint/" ||
		response.StatusCode != http.StatusMovedPermanently {
		t.Errorf("/stint leads to %q: %s", got, response.Status)
	}
}

// Every page times every access: nobody gets a page that he may not have.
func TestHandler_AsksWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "secret-task", Action: "mail", Body: []byte("a secret body")})
	for _, access := range []struct {
		name string
		may  []ui.Verb
	}{
		{"nobody", nil},
		{"somebody who may not see bodies", []ui.Verb{ui.Read}},
		{"somebody who may see bodies only", []ui.Verb{ui.ReadBodies}},
		{"a reader", []ui.Verb{ui.Read, ui.ReadBodies}},
		{"somebody who may have it checked", []ui.Verb{ui.Read, ui.Check}},
		{"somebody who may only have it checked", []ui.Verb{ui.Check}},
	} {
		h := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
			return slices.Contains(access.may, verb)
		}})
		for _, name := range pageNames("secret-task") {
			needs := []ui.Verb{ui.Read}
			if strings.HasPrefix(name, "value") {
				needs = append(needs, ui.ReadBodies)
			}
			if name == "check" {
				needs = append(needs, ui.Check)
			}
			want := http.StatusOK
			for _, verb := range needs {
				if !slices.Contains(access.may, verb) {
					want = http.StatusForbidden
				}
			}
			response := get(t, h, "/"+name)
			content := body(t, response)
			if response.StatusCode != want {
				t.Errorf("%s gets %q: %s", access.name, name, response.Status)
			}
			if want == http.StatusForbidden && strings.Contains(
				strings.ReplaceAll(content, name, ""), "secret") {
				t.Errorf("%s sees in %q:\n%s", access.name, name, content)
			}
			if !slices.Contains(access.may, ui.ReadBodies) &&
				strings.Contains(content, "a secret body") {
				t.Errorf("%s sees the body in %q", access.name, name)
			}
		}
		// Whether a page or a task is there is nothing to know for those who may not read.
		for _, name := range []string{"nothing", "task?id=nothing"} {
			want := http.StatusNotFound
			if !slices.Contains(access.may, ui.Read) {
				want = http.StatusForbidden
			}
			if response := get(t, h, "/"+name); response.StatusCode != want {
				t.Errorf("%s gets %q: %s", access.name, name, response.Status)
			}
		}
	}
}

func TestHandler_ChangesNothing(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{}, ui.Options{})
	for _, name := range []string{"", "tasks", "task?id=a", "network?id=a", "value?id=a"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			response := ask(t, h, method, "/"+name)
			if response.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %q: %s", method, name, response.Status)
			}
			response = ask(t, h, method, "/"+name, "Sec-Fetch-Site", "cross-site")
			if response.StatusCode != http.StatusForbidden {
				t.Errorf("%s %q from another site: %s", method, name, response.Status)
			}
		}
	}
}

// The policy has no exception: no inline script or style, no other origin.
func TestHandler_SendsAStrictPolicy(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{}, ui.Options{})
	for _, name := range append(pageNames("a"), "nothing", "task?id=") {
		header := get(t, h, "/"+name).Header
		policy := header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
			strings.Contains(policy, "http") || header.Get("X-Content-Type-Options") != "nosniff" ||
			header.Get("Cache-Control") != "no-store" || len(header.Values("Set-Cookie")) > 0 {
			t.Errorf("the headers of %q are %v", name, header)
		}
	}
}

// A browser that has a page already gets it again only if something happened.
func TestHandler_SaysThatNothingChanged(t *testing.T) {
	t.Parallel()
	clock := func(context.Context) (time.Time, error) {
		return time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC), nil
	}
	var tries atomic.Int64
	store := aFake{
		list: func(context.Context, stint.Filter) (stint.TaskPage, error) {
			at := time.Date(2026, 11, 26, 7, 0, 0, 0, time.UTC)
			return stint.TaskPage{Tasks: []stint.TaskInfo{{
				ID: "a", State: stint.StateReady, Tries: int(tries.Load()), InsertedAt: at,
			}}}, nil
		},
	}
	first := get(t, ui.New(store, ui.Options{Clock: clock}), "/tasks")
	tag := first.Header.Get("ETag")
	muchLater := func(ctx context.Context) (time.Time, error) {
		at, err := clock(ctx)
		return at.Add(time.Hour), err
	}
	h := ui.New(store, ui.Options{Clock: muchLater})
	second := get(t, h, "/tasks", "If-None-Match", tag)
	if second.StatusCode != http.StatusNotModified || body(t, second) != "" {
		t.Errorf("an hour later the page is sent again: %s", second.Status)
	}
	if got := body(t, get(t, h, "/tasks")); !strings.Contains(got, "2h00m ago") {
		t.Errorf("the page does not say 2h00m ago:\n%s", got)
	}
	tries.Add(1)
	h = ui.New(store, ui.Options{Clock: muchLater}) // for which the answer is new
	if third := get(t, h, "/tasks", "If-None-Match", tag); third.StatusCode != http.StatusOK {
		t.Errorf("a page that changed is not sent: %s", third.Status)
	}
}

// However many look, the store is asked once.
func TestHandler_AsksOnceForAll(t *testing.T) {
	t.Parallel()
	const lookers = 50
	var asked atomic.Int64
	answer := make(chan struct{})
	h := ui.New(aFake{stats: func(context.Context) (stint.Stats, error) {
		asked.Add(1)
		<-answer
		return stint.Stats{Actions: []stint.ActionStats{{Action: "mail", Ready: 7}}}, nil
	}}, ui.Options{})
	var looking sync.WaitGroup
	for range lookers {
		looking.Go(func() {
			if got := body(t, get(t, h, "/actions")); !strings.Contains(got, "mail") {
				t.Errorf("the page is\n%s", got)
			}
		})
	}
	close(answer)
	looking.Wait()
	if n := asked.Load(); n > 2 { // one may have come when the first answer was no longer new
		t.Errorf("the store was asked %d times for %d who looked", n, lookers)
	}
}

// If one of those who wait goes, the others still get the answer.
func TestHandler_AnswersThoseWhoStay(t *testing.T) {
	t.Parallel()
	begun, answer := make(chan struct{}), make(chan struct{})
	h := ui.New(aFake{stats: func(ctx context.Context) (stint.Stats, error) {
		close(begun)
		<-answer
		return stint.Stats{}, ctx.Err()
	}}, ui.Options{})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "/actions", nil)
		h.ServeHTTP(discard{}, r)
	}()
	<-begun
	leave()
	<-left
	stayed := make(chan int)
	go func() { stayed <- get(t, h, "/actions").StatusCode }()
	close(answer)
	if code := <-stayed; code != http.StatusOK {
		t.Errorf("whoever stays gets %d", code)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// Errors may name hosts and users: they are for the log.
func TestHandler_TellsTheLogWhy(t *testing.T) {
	t.Parallel()
	cause := errors.New("no route to db7.example as user secret")
	var log bytes.Buffer
	for name, store := range map[string]aFake{
		"an error": {stats: func(context.Context) (stint.Stats, error) {
			return stint.Stats{}, cause
		}},
		"a panic": {stats: func(context.Context) (stint.Stats, error) { panic(cause) }},
	} {
		log.Reset()
		h := ui.New(store, ui.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		response := get(t, h, "/")
		if content := body(t, response); response.StatusCode != http.StatusBadGateway ||
			strings.Contains(content, "secret") || !strings.Contains(content, "did not answer") {
			t.Errorf("%s: %s\n%s", name, response.Status, content)
		}
		if !strings.Contains(log.String(), cause.Error()) {
			t.Errorf("%s: the log has %q", name, log.String())
		}
	}
}

// It has many causes that a schema does not match. The log has the one.
func TestHandler_SaysThatTheSchemaDoesNotMatch(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := ui.New(aFake{stats: func(context.Context) (stint.Stats, error) {
		return stint.Stats{}, fmt.Errorf("%w: it is at version 7", stint.ErrSchemaVersion)
	}}, ui.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	wantParts(t, body(t, get(t, h, "/")), "The schema does not match this release", "the log says")
	wantParts(t, log.String(), "it is at version 7")
}

func TestHandler_DoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{
		list: func(ctx context.Context, _ stint.Filter) (stint.TaskPage, error) {
			<-ctx.Done()
			return stint.TaskPage{}, ctx.Err()
		},
		stats: func(ctx context.Context) (stint.Stats, error) {
			<-ctx.Done()
			return stint.Stats{}, ctx.Err()
		},
	}, ui.Options{Timeout: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	for _, name := range []string{"", "tasks"} {
		if response := get(t, h, "/"+name); response.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%q: %s", name, response.Status)
		}
	}
}

func TestHandler_RefusesLongAddresses(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{}, ui.Options{})
	response := get(t, h, "/tasks?prefix="+strings.Repeat("x", 1<<16))
	if response.StatusCode != http.StatusRequestURITooLong {
		t.Errorf("a long address: %s", response.Status)
	}
}

// Arguments that the store refuses are explained, not failures.
func TestHandler_ExplainsWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	h := ui.New(newStore(t), ui.Options{})
	for _, name := range []string{
		"task?id=", "task?id=%00", "network?id=" + strings.Repeat("x", 513), "tasks?after=%ff",
		"tasks?prefix=%00", "tasks?actor=" + strings.Repeat("x", 256),
	} {
		response := get(t, h, "/"+name)
		if content := body(t, response); response.StatusCode != http.StatusBadRequest ||
			!strings.Contains(content, "Not understood") {
			t.Errorf("%q: %s\n%s", name, response.Status, content)
		}
	}
}

// No parameter makes a page fail, and nothing of it gets out of its place.
func FuzzHandler(f *testing.F) {
	for i, value := range hostileTexts() {
		f.Add(i, value, value)
	}
	h := ui.New(aFake{
		explain: func(_ context.Context, id stint.TaskID) (stint.Explanation, error) {
			return stint.Explanation{Task: stint.TaskInfo{
				ID: id, Action: string(id), Key: string(id), Status: string(id),
				State: stint.StateAborted, AbortCause: stint.AbortCause(id),
			}}, nil
		},
		get: func(_ context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error) {
			return []stint.TaskInfo{{ID: ids[0], Body: []byte(ids[0]), Result: []byte(ids[0])}}, nil
		},
		list: func(_ context.Context, filter stint.Filter) (stint.TaskPage, error) {
			return stint.TaskPage{
				Tasks: []stint.TaskInfo{{ID: stint.TaskID(filter.IDPrefix), Key: filter.Key}},
				Next:  filter.After + "x",
			}, nil
		},
	}, ui.Options{})
	names := []string{
		"id", "name", "prefix", "after", "key", "actor", "show", "of", "body", "message",
	}
	f.Fuzz(func(t *testing.T, page int, first, second string) {
		pages := []string{"task", "network", "tasks", "action", "value", "waiting"}
		query := url.Values{}
		for i, name := range names {
			query.Set(name, []string{first, second}[i%2])
		}
		target := "/" + pages[max(page, -page-1)%len(pages)] + "?" + query.Encode()
		response := get(t, h, target)
		if response.StatusCode >= http.StatusInternalServerError {
			t.Fatalf("GET %s: %s", target, response.Status)
		}
		if response.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			return
		}
		found := parse(t, body(t, response))
		if found.elements["script"] != 1 || found.elements["img"]+found.elements["style"] > 0 {
			t.Errorf("GET %s has the elements %v", target, found.elements)
		}
	})
}

// hostileTexts are what IDs, actions, keys, actors, texts and bodies may hold.
func hostileTexts() []string {
	return []string{
		"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "javascript:alert(1)",
		"' onmouseover='alert(1)", "</title></svg></template><style>*{}</style>", "{{.}}",
		"a&amp;b", "a/b?c=d#e%f", "../..//x", "%2e%2e%2f", "./", "..", " ", "a\nb\tc",
		"\x01\x7f\u009b",
		"\u202eevil\u202c\u2066", "שלום/עולם", "任务/" + strings.Repeat("任", 80),
		"\U0001f600\u200d",
		"-rf", "a\u0301\u0301\u0301", strings.Repeat("x", 255), "]]>", "<!--", "&#x3c;b&#x3e;",
	}
}

// Whatever tasks hold, pages show it as text, link to it, and stay what they are.
func TestPages_ShowAnyText(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	ctx := t.Context()
	for _, hostile := range hostileTexts() {
		insert(t, store, stint.Task{
			ID: stint.TaskID(hostile), Action: hostile, Key: hostile, Body: []byte(hostile),
			MaxTries: 1,
		}, stint.Task{
			ID: stint.TaskID("after " + hostile), Action: hostile,
			After: []stint.TaskID{stint.TaskID(hostile)},
		})
		owned, err := store.OwnTasks(ctx, stint.ActorID(hostile), 1, []string{hostile}, time.Minute)
		wantNil(t, err)
		verdicts, err := store.ReturnTasks(ctx, []stint.Return{{
			ID: owned[0].ID, Token: owned[0].Token, Status: hostile, Code: stint.StatusPending,
			Log: hostile,
		}})
		wantNil(t, errors.Join(append(verdicts, err)...))
	}
	h := ui.New(store, ui.Options{})
	for _, hostile := range hostileTexts() {
		query := url.QueryEscape(hostile)
		for _, target := range []string{
			"/task?id=" + query, "/network?id=" + query, "/action?name=" + query,
			"/tasks?prefix=" + query, "/tasks?actor=" + query, "/tasks?key=" + query, "/problems",
			"/actions", "/",
		} {
			found := parse(t, text(t, h, target))
			if found.elements["script"] != 1 || found.elements["img"]+found.elements["style"] > 0 {
				t.Errorf("%s has the elements %v", target, found.elements)
			}
			for _, link := range found.links {
				if strings.Contains(link, ":") {
					t.Errorf("%s names %q", target, link)
				}
			}
		}
		found := parse(t, text(t, h, "/tasks?order=store&prefix="+query))
		if !slices.ContainsFunc(found.links, func(to string) bool {
			at, err := url.Parse(to)
			return err == nil && at.Path == "task" && at.Query().Get("id") == hostile
		}) {
			t.Errorf("the list of %q does not lead to it: %q", hostile, found.links)
		}
		for _, r := range "\ue001\x7f\u009b\u202e\u2066\u200d" { // the first as parse moves it
			if strings.ContainsRune(found.text, r) {
				t.Errorf("the list of %q holds %U", hostile, r)
			}
		}
	}
}

func TestNew_SaysWhatItShows(t *testing.T) {
	t.Parallel()
	wantParts(t, text(t, ui.New(aFake{}, ui.Options{Title: "Shop <staging>"}), "/"),
		"Shop &lt;staging&gt;</a>", "No tasks yet")
	page := text(t, ui.New(aFake{}, ui.Options{}), "/")
	if strings.Contains(page, `href="limits"`) || strings.Contains(page, `href="schedules"`) ||
		strings.Contains(page, `href="check"`) || strings.Contains(page, `href="shards"`) {
		t.Errorf("a store without limits, schedules and checks has pages of them:\n%s", page)
	}
}

func ExampleNew() {
	var store *stint.Store
	pages := ui.New(store, ui.Options{
		Authorize: func(r *http.Request, verb ui.Verb) bool {
			return verb == ui.Read || r.Header.Get("X-Role") == "admin"
		},
	})
	http.Handle("/stint/", pages)
	fmt.Println("see /stint/")
	// Output: see /stint/
}
