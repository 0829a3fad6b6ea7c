package ui_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// slipped are names with a slip in them, for a name that has none.
func slipped(name string) []string {
	return []string{" " + name, name + "\u00a0", name + "\u200b", name[:1] + "\x1b" + name[1:]}
}

// nameFields are the fields of forms in which an action or a key is typed, of all pages that are
// reached from a task of the action mail with the key customer-one: the page and the field.
func nameFields(t *testing.T, h http.Handler) map[string]sentForm {
	t.Helper()
	// Fields in which something else is typed or chosen.
	others := regexp.MustCompile(`^(reason|result|answer-key|code|id|prefix|header|body|message|` +
		`actor|age|` +
		`order|size|state|of|task|start|start-at|set-priority|set-max-tries|no-key|fair|` +
		`ordered|by-cost|` +
		`concurrency|per-key|rate|burst|rate-key|burst-key|rate-per|rate-key-per|` +
		`part|new-id|new-priority|new-max-tries|new-cost|new-deadline|any-of|` +
		`spec|zone|jitter|window)$`)
	found := map[string]sentForm{}
	note := func(page string, forms []sentForm) {
		for _, form := range forms {
			for name, kind := range form.names {
				seen := name != "" && kind == "input" && !form.hidden[name]
				if seen && !others.MatchString(name) {
					found[page+" "+name] = form
				}
			}
		}
	}
	for _, page := range pageNames("mail/1") {
		shown := text(t, h, "/"+page)
		page, _, _ = strings.Cut(page, "?")
		for _, form := range allForms(t, shown) {
			note(page, []sentForm{form})
			for _, do := range form.buttons {
				if form.action != "preview" || form.names["typed"] != "" {
					continue
				}
				form.values.Set("do", do)
				if form.values.Has("of") || len(form.boxes) > 0 {
					form.values["task"] = form.boxes
				}
				response := send(t, h, form)
				next := body(t, response)
				if response.StatusCode == http.StatusOK {
					note("preview of "+do, formsOf(t, next))
				}
			}
		}
	}
	return found
}

// A namedForm is a field of nameFields, and what becomes of names in it.
type namedForm struct {
	slip  string // the answer to a slip
	looks bool   // it looks for tasks, so that what has a slip in it is found, too
	told  string // what is told of a name that nothing has, and what is near; empty: nothing
}

const (
	noSuchAction = `No task, actor, schedule, limit or pause was found with the action `
	noSuchKey    = `No task, schedule, pause or weight was found with the key `
)

func namedForms() map[string]namedForm {
	refused := " is refused: it "
	return map[string]namedForm{
		"action typed":                       {slip: refused, told: noSuchKey},
		"preview of change set-key":          {slip: refused},
		"preview of limit fair-group":        {slip: refused},
		"preview of insert new-action":       {slip: refused, told: noSuchAction},
		"preview of insert new-key":          {slip: refused, told: noSuchKey},
		"preview of new-schedule new-name":   {slip: refused},
		"preview of new-schedule new-action": {slip: refused},
		"preview of new-schedule new-key":    {slip: refused},
		"tasks action":                       {looks: true, told: noSuchAction},
		"tasks key":                          {looks: true, slip: " may be a slip: it "},
		"changes action":                     {looks: true, told: noSuchAction},
	}
}

// In each form in which somebody types an action or a key, a slip is refused or told, and so is a
// name that nothing in the store has, with the one that may have been meant.
// Proves G324.
func TestForms_TellSlipsInNames(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "mail/1", Action: "mail", Key: "customer-one"})
	for name, shown := range stores {
		h := ui.New(shown, open())
		fields := nameFields(t, h)
		for place := range fields {
			if _, ok := namedForms()[place]; !ok {
				t.Errorf("%s: a name is typed at %q: say in namedForms what becomes of a slip",
					name, place)
			}
		}
		for place, want := range namedForms() {
			form, ok := fields[place]
			if !ok {
				t.Errorf("%s: there is no field %q", name, place)
				continue
			}
			tryForm(t, h, place, form, want)
		}
		limits, err := store.ListLimits(t.Context())
		wantNil(t, err)
		if len(limits) > 0 {
			t.Errorf("%s: there are limits or pauses now: %+v", name, limits)
		}
	}
}

// tryForm types names in a field of a form.
func tryForm(t *testing.T, h http.Handler, place string, form sentForm, want namedForm) {
	t.Helper()
	_, field, _ := strings.Cut(place, " ")
	field = field[strings.LastIndexByte(field, ' ')+1:]
	known, near := "mail", "mial"
	if !strings.HasSuffix(field, "action") {
		known, near = "customer-one", "customer-oen"
	}
	answer := func(typed string) (code int, page string) {
		t.Helper()
		if form.method != "post" {
			query := url.Values{field: {typed}}
			if field == "key" {
				query.Set("action", "mail")
			}
			response := get(t, h, "/"+form.action+"?"+query.Encode())
			return response.StatusCode, shownOf(body(t, response))
		}
		form.values.Del("do")
		for _, do := range form.buttons {
			form.values.Set("do", do)
		}
		if form.values.Get("do") == "" {
			form.values.Set("do", strings.Fields(place)[2])
		}
		more := []string{}
		if field == "fair-group" {
			more = append(more, "fair", "true")
		}
		response := send(t, h, form, append(more, field, typed)...)
		return response.StatusCode, shownOf(body(t, response))
	}
	before := form.values.Get(field)
	defer func() { form.values.Set(field, before) }() // other fields are of the same form
	for _, slip := range slipped(known) {
		code, page := answer(slip)
		switch {
		case want.slip != "" && !strings.Contains(page, strconv.Quote(slip)+want.slip):
			t.Errorf("%s: %q is answered by\n%s", place, slip, page)
		case want.slip == "" && !strings.Contains(page, `did you mean "`+known+`"?`):
			t.Errorf("%s: nothing says what %q means:\n%s", place, slip, page)
		case !want.looks && code == http.StatusOK && strings.Contains(page, "Change nothing") &&
			!strings.Contains(page, "Show what it would do"): // the same form again
			t.Errorf("%s: one may agree to %q", place, slip)
		}
	}
	if want.told == "" {
		return
	}
	code, page := answer(near)
	if code != http.StatusOK || !strings.Contains(page, want.told+strconv.Quote(near)) ||
		!strings.Contains(page, `did you mean "`+known+`"?`) {
		t.Errorf("%s: %q is answered by %d\n%s", place, near, code, page)
	}
	if _, page = answer(known); strings.Contains(page, "was found with") {
		t.Errorf("%s: %q is not known:\n%s", place, known, page)
	}
}

// shownOf is the text of a page.
func shownOf(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	page, _, _ = strings.Cut(page, "</main>")
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, ""))
}

// anEstimate is a store that only estimates how many tasks are ready.
type anEstimate struct{ *stint.Store }

func (s anEstimate) Stats(ctx context.Context) (stint.Stats, error) {
	stats, err := s.Store.Stats(ctx)
	stats.Estimated = []stint.State{stint.StateReady}
	return stats, err
}

// What is not paused is not resumed without a word, and the page of an action that nothing has
// names the one that may have been meant.
func TestForms_TellWhatIsNotPausedOrNotKnown(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, open())
	insert(t, store, stint.Task{ID: "mail/1", Action: "mail"})
	wantNil(t, store.Pause(t.Context(), "mail"))
	form := formWith(t, text(t, h, "/action?name=mail"), "resume")
	page := previewOf(t, h, form)
	if strings.Contains(page, "nothing to resume") {
		t.Errorf("mail is paused:\n%s", page)
	}
	wantParts(t, page, "Paused keys stay paused.",
		"Of its tasks, 1 is ready, and 0 are in progress.")
	estimated := ui.New(anEstimate{store}, open())
	wantParts(t, previewOf(t, estimated, formWith(t, text(t, estimated, "/action?name=mail"),
		"resume")), "Of its tasks, ~1 is ready, and 0 are in progress.")
	wantNil(t, store.PauseKeys(t.Context(), "mail", "k"))
	wantNil(t, store.Resume(t.Context(), "mail"))
	wantParts(t, previewOf(t, h, formWith(t, text(t, ui.New(store, open()), "/limits"), "resume")),
		"Its tasks are fetched again, but not while its action is paused.")
	page = previewOf(t, h, form)
	wantParts(t, page, "Nothing to resume", "It is not paused now: there is nothing to resume.")
	if strings.Contains(page, `class="agree"`) {
		t.Errorf("mail is not paused, and may be resumed:\n%s", page)
	}
	wantParts(t, text(t, h, "/action?name=mial"), "Nothing is known of this action",
		`Did you mean <a href="action?name=mail">mail</a>?`)
}

// An action of a few tasks among so many that these are estimated is known to its page, and to the
// form that pauses it.
func TestAction_OfFewTasksAmongManyIsKnown(t *testing.T) {
	t.Parallel()
	fake := aFake{
		stats: func(context.Context) (stint.Stats, error) {
			return stint.Stats{
				Actions:   []stint.ActionStats{{Action: "mail", Blocked: 1_000_000}},
				Estimated: []stint.State{stint.StateBlocked},
			}, nil
		},
		list: func(_ context.Context, filter stint.Filter) (stint.TaskPage, error) {
			if slices.Equal(filter.Actions, []string{"rare"}) {
				return stint.TaskPage{Tasks: []stint.TaskInfo{{ID: "r", Action: "rare"}}}, nil
			}
			return stint.TaskPage{Looked: 10_000, Next: "there may be more"}, nil
		},
	}
	h := ui.New(fake, open())
	wantParts(t, text(t, h, "/action?name=none"), "None of 10,000 tasks that were looked at has it")
	if page := text(t, h, "/action?name=rare"); strings.Contains(page, "Nothing is known") {
		t.Errorf("the action is not known:\n%s", page)
	}
}
