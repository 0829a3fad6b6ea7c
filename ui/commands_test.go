package ui_test

import (
	"html"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// argumentsOf runs the command lines that a page offers to copy in a shell, with a stint that
// prints what it is given.
func argumentsOf(t *testing.T, page string) (all [][]string) {
	t.Helper()
	const stub = `stint() { for word; do printf '%s\000' "$word"; done; }; cd "$0" && `
	for _, found := range regexp.MustCompile(`<div class="copy"><code>([^<]*)</code>`).
		FindAllStringSubmatch(page, -1) {
		script := stub + html.UnescapeString(found[1])
		if _, file, ok := strings.Cut(script, " > "); ok {
			script += "; cat " + file
		}
		printed, err := exec.CommandContext(t.Context(), "sh", "-c", script, t.TempDir()).Output()
		wantNil(t, err)
		all = append(all, strings.Split(strings.TrimSuffix(string(printed), "\x00"), "\x00"))
	}
	return all
}

// Whatever commands on pages hold, they name the store, as flags and not as arguments.
//
// Proves G313.
func TestPages_CommandsNameTheStoreWhateverTheyHold(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	options := open()
	options.CommandFlags = func(*http.Request) string { return "--database-url 'it'\\''s | here'" }
	flags := []string{"--database-url", "it's | here"}
	h := ui.New(store, options)
	later := time.Now().Add(time.Hour)
	const piped = stint.TaskID("it's | stint insert -- ")
	insert(t, store, stint.Task{ID: "-a", Action: "mail"}, stint.Task{ID: "b", Action: "mail"},
		stint.Task{ID: "-c", Action: "x", After: []stint.TaskID{"-a", "b"}},
		stint.Task{
			ID: "-later", Action: "later", NotBefore: later, Body: []byte(`{"a": 1}`),
		},
		stint.Task{ID: piped, Action: "later", NotBefore: later})
	fail(t, store, "mail", func(int) string { return "no" })
	const body = `$.a == 1 || $.b == 2`
	list := "/tasks?" + url.Values{"body": {body}}.Encode()
	for _, one := range []struct {
		page string
		want [][]string
	}{
		{text(t, h, list), [][]string{{"ls", "--body=" + body, "--newest", "FLAGS"}}},
		{
			text(t, h, "/tasks?"+url.Values{"message": {"a | stint b -- c"}}.Encode()),
			[][]string{{"ls", "--message=a | stint b -- c", "--newest", "FLAGS"}},
		},
		{
			previewOf(t, h, formWith(t, text(t, h, list), "abort"), "of", "all"),
			[][]string{{"abort", "--body=" + body, "FLAGS"}},
		},
		{text(t, h, "/"+address("task", piped)), [][]string{
			{"explain", string(piped), "FLAGS"},
			{"show", string(piped), "FLAGS"},
			{"abort", string(piped), "FLAGS"},
		}},
		{text(t, h, "/"+address("task", "-c")), [][]string{
			{"explain", "FLAGS", "--", "-c"},
			{"show", "FLAGS", "--", "-c"},
			{"retry", "FLAGS", "--", "-a", "b"},
		}},
		{
			text(t, h, "/"+address("network", "-c")),
			[][]string{{"graph", "--format", "svg", "FLAGS", "--", "-c"}},
		},
		{
			previewOf(t, h, formWith(t, text(t, h, "/"+address("task", "-later")), "run")),
			[][]string{{"change", "--start-now", "FLAGS", "--", "-later"}},
		},
		{text(t, h, "/tasks?prefix=nothing"), [][]string{{"ls", "--prefix=nothing", "FLAGS"}}},
		{text(t, ui.New(newStore(t), options), "/tasks"), [][]string{
			{"insert", "FLAGS"}, {"ls", "--newest", "FLAGS"},
		}},
	} {
		var want [][]string
		for _, words := range one.want {
			at := slices.Index(words, "FLAGS")
			want = append(want, slices.Concat(words[:at], flags, words[at+1:]))
		}
		if got := argumentsOf(t, one.page); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("the commands are %q, want %q", got, want)
		}
	}
}
