package ui_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// Whoever slips with an answer gets the form again, as it was filled in and with what is wrong: a
// result is not typed twice. The log tells of guesses at keys.
func TestAnswer_ThatIsNotTakenKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	const secret, typed = "a-key-of-16-bytes", "\n <b>a result\nof two lines"
	store := newStore(t)
	insert(t, store, stint.Task{ID: "asked", Action: stint.External, AnswerKey: secret},
		stint.Task{ID: "first", Action: "mail"},
		stint.Task{ID: "early", Action: stint.External, After: []stint.TaskID{"first"}})
	var log bytes.Buffer
	options := open()
	options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := ui.New(store, options)
	asked := previewOf(t, h, formWith(t, text(t, h, "/task?id=asked"), "answer"))
	task := agreement(t, asked).values.Get("task")
	early := formWith(t, text(t, h, "/task?id=early"), "abort").values.Get("task")
	var last sentForm
	for _, test := range []struct{ name, task, code, result, key, says string }{
		{"no code", task, "", typed, secret, "Choose whether"},
		{"a long result", task, "completed", strings.Repeat("ä", 40_000), secret, "64 KiB"},
		{"too early", early, "completed", typed, "", "waits for others"},
		{"no key", task, "completed", typed, "", "not the key of the task"},
		{"a short key", task, "aborted", typed, "x", "not the key of the task"},
		{"another key", task, "completed", typed, "another key of 16", "not the key of the task"},
		{"a result of nothing", task, "skipped", typed, secret, "has no result"},
	} {
		response := send(t, h, agreement(t, asked), "task", test.task, "code", test.code,
			"result", strings.ReplaceAll(test.result, "\n", "\r\n"), "answer-key", test.key,
			"reason", "said so")
		page := body(t, response)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(page, test.says) {
			t.Fatalf("%s: %s\n%s", test.name, response.Status, page)
		}
		parse(t, page)
		last = agreement(t, page)
		for name, want := range map[string]string{
			"code": test.code, "result": test.result, "answer-key": test.key, "reason": "said so",
		} {
			got := strings.ReplaceAll(last.values.Get(name), "\r\n", "\n")
			if got != want {
				t.Errorf("%s: %s is %q, want %q", test.name, name, got, want)
			}
		}
	}
	wantStates(t, store, stint.StateReady, "asked")
	if !strings.Contains(log.String(), "This is not the key") {
		t.Errorf("the log tells of no guess:\n%s", log.String())
	}
	response := send(t, h, last, "result", "")
	if response.StatusCode != http.StatusSeeOther {
		t.Errorf("the form again without the result: %s\n%s", response.Status, body(t, response))
	}
	wantStates(t, store, stint.StateSkipped, "asked")
}
