package ui_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

func TestTask_ShowsValuesInTheirForms(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	h := ui.New(store, ui.Options{})
	for id, test := range map[stint.TaskID]struct {
		body, form     string // form "": the best one
		want, wantForm string
	}{
		"json": {
			`{"n":12345678901234567890,"a":[1,2]}`, "",
			"{\n  &#34;n&#34;: 12345678901234567890,", "JSON",
		},
		"as text":  {`{"n":1}`, "text", "{&#34;n&#34;:1}", "Text"},
		"as hex":   {"AB", "hex", "00000000  41 42", "Hex"},
		"text":     {"two\nlines", "json", "two\nlines", "Text"},
		"binary":   {"\x00\xff", "text", "00000000  00 ff", "Hex"},
		"hidden":   {"a\u202eb", "", "e2 80 ae", "Hex"},
		"cut JSON": {`{"n":`, "", "{&#34;n&#34;:", "Text"},
		"deep": {
			strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "json", "[[[[", "Text",
		},
	} {
		insert(t, store, stint.Task{ID: id, Action: "mail", Body: []byte(test.body)})
		page := text(t, h, "/"+address("task", id)+"&body="+test.form)
		wantParts(t, page, test.want, `aria-current="true">`+test.wantForm+`</a>`)
		if len(page) > 100<<10 {
			t.Errorf("the page of %q has %d bytes", id, len(page))
		}
	}
}

// Few bytes do not become many.
func TestTask_BoundsWhatJSONBecomes(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	body := strings.Repeat("[", 30) + strings.Repeat("1,", 30<<10) + "1" + strings.Repeat("]", 30)
	insert(t, store, stint.Task{ID: "a", Action: "mail", Body: []byte(body)})
	page := text(t, ui.New(store, ui.Options{}), "/task?id=a")
	if len(page) > 400<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	wantParts(t, page, "Only the beginning is shown")
}

// A large body is not read for the page, and is saved whole.
func TestTask_LeavesLargeValuesOut(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	content := make([]byte, testrun.Rounds(64)<<20)
	for i := range len(content) / 8 {
		binary.LittleEndian.PutUint64(content[8*i:], uint64(i)*0x9e3779b97f4a7c15)
	}
	insert(t, store, stint.Task{ID: "a", Action: "mail", Body: content})
	h := ui.New(store, ui.Options{})
	page := text(t, h, "/task?id=a")
	wantParts(t, page, "more than 64 KiB", `href="value?id=a&amp;of=body"`)
	if len(page) > 20<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	saved := get(t, h, "/value?id=a&of=body")
	if got := body(t, saved); got != string(content) {
		t.Errorf("%d bytes were saved, want %d", len(got), len(content))
	}
	for name, want := range map[string]string{
		"Content-Disposition":     "attachment; filename=body",
		"Content-Type":            "application/octet-stream",
		"Content-Security-Policy": "default-src 'none'; sandbox",
	} {
		if got := saved.Header.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Whoever looks at a task for long does not read its body again and again, but what became of it.
func TestTask_ReadsValuesOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var reads, finished atomic.Int64
	info := func() stint.TaskInfo {
		task := stint.TaskInfo{ID: "a", State: stint.StateInProgress, Body: []byte("the body")}
		if finished.Load() > 0 {
			task.State, task.Result = stint.StateCompleted, []byte("the result")
			task.FinishedAt = task.InsertedAt.AddDate(2000, 0, 0)
		}
		return task
	}
	h := ui.New(aFake{
		explain: func(context.Context, stint.TaskID) (stint.Explanation, error) {
			task := info()
			task.Body, task.Result = nil, nil
			return stint.Explanation{Task: task}, nil
		},
		get: func(context.Context, []stint.TaskID) ([]stint.TaskInfo, error) {
			reads.Add(1)
			return []stint.TaskInfo{info()}, nil
		},
	}, ui.Options{})
	for range 3 {
		wantParts(t, text(t, h, "/task?id=a"), "the body")
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("the body was read %d times", n)
	}
	finished.Add(1)
	eventually(t, func() bool {
		page := text(t, h, "/task?id=a")
		return strings.Contains(page, "the body") && strings.Contains(page, "the result")
	})
}

func TestTask_FormatsValues(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail", Body: []byte("\x01")})
	h := ui.New(store, ui.Options{Format: func(task stint.TaskInfo, value []byte) []byte {
		return []byte(`{"decoded":"` + string(task.ID) + `","bytes":` + string('0'+value[0]) + `}`)
	}})
	wantParts(t, text(t, h, "/task?id=a"), "&#34;decoded&#34;: &#34;a&#34;", "&#34;bytes&#34;: 1",
		"1 byte<")
}

func TestTask_HidesValues(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail", Body: []byte("secret")})
	h := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
		return verb != ui.ReadBodies
	}})
	page := text(t, h, "/task?id=a")
	wantParts(t, page, "You may not see them")
	if strings.Contains(page, "secret") || strings.Contains(page, "6 bytes") {
		t.Errorf("the page tells of the body:\n%s", page)
	}
}
