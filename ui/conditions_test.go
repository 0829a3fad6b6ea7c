package ui_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// conditionsOf are those of a task, and whether one of them is enough.
func conditionsOf(
	t *testing.T, store *stint.Store, id stint.TaskID,
) (all map[stint.TaskID]stint.Condition, anyOf bool) {
	t.Helper()
	graph, err := store.Graph(t.Context(), id)
	wantNil(t, err)
	all = map[stint.TaskID]stint.Condition{}
	for _, c := range graph.Conditions {
		if c.Dependent == id {
			all[c.After], anyOf = c.Condition, c.Any
		}
	}
	return all, anyOf
}

// insertedBy is the task that was inserted by whoever agrees to a preview.
func insertedBy(t *testing.T, h http.Handler, preview string) stint.TaskID {
	t.Helper()
	_, rest, _ := strings.Cut(agree(t, h, preview), `href="task?id=`)
	link, _, _ := strings.Cut(rest, `"`)
	id, err := url.QueryUnescape(link)
	wantNil(t, err)
	return stint.TaskID(id)
}

// A task is inserted with the conditions of the form, which a copy has, too.
func TestInsert_TakesConditions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "draft", Action: "write"},
		stint.Task{ID: "review", Action: "read"}, stint.Task{ID: "plain", Action: "read"})
	completed, aborted := stint.StateCompleted, stint.StateAborted
	want := map[stint.TaskID]stint.Condition{
		"review": {
			After: "review", States: []stint.State{completed, aborted},
			Results: []string{"<yes>", ""},
		},
		"draft": {After: "draft", States: []stint.State{completed}},
	}
	const typed = "[{\"after\": \"review\", \"states\": [\"aborted\", \"completed\"],\r\n" +
		`"results": ["<yes>", ""]}, {"after": "draft"}]`
	for name, shown := range stores {
		h := ui.New(shown, open())
		for anyOf, says := range map[string]string{
			"":     "It begins when all conditions are met, and is skipped if one cannot be.",
			"true": "It begins as soon as one condition is met.",
		} {
			form := previewOf(t, h, formWith(t, text(t, h, "/tasks"), "insert"))
			said := []string{"new-action", "publish", "new-when", typed, "any-of", anyOf}
			if anyOf == "" {
				said = append(said, "new-after", "plain")
			}
			preview := previewOf(t, h, fillIn(t, form), said...)
			wantParts(t, preview, says, "draft</a>: if completed.",
				"review</a>: if "+html.EscapeString(`"<yes>" or "" or aborted.`))
			if anyOf == "" {
				wantParts(t, preview, "It waits for the end of 1 task without a condition.")
			}
			id := insertedBy(t, h, preview)
			wantStates(t, store, stint.StateBlocked, id)
			if got, isAny := conditionsOf(t, store, id); !reflect.DeepEqual(got, want) ||
				isAny != (anyOf != "") {
				t.Errorf("%s: inserted with %+v, %t", name, got, isAny)
			}
			form = previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id)), "insert"))
			wantParts(t, form, html.EscapeString(`"results":["<yes>",""]}`))
			copied := insertedBy(t, h, previewOf(t, h, fillIn(t, form), "new-key", "k"))
			got, isAny := conditionsOf(t, store, copied)
			if copied == id || !reflect.DeepEqual(got, want) || isAny != (anyOf != "") {
				t.Errorf("%s: the copy of %s is %s, with %+v, %t", name, id, copied, got, isAny)
			}
		}
	}
}

// A form with conditions that are wrong says beside these what is, and keeps what was filled in.
func TestInsert_SaysWhatIsWrongWithConditions(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "review", Action: "read"})
	h := ui.New(store, open())
	form := previewOf(t, h, formWith(t, text(t, h, "/tasks"), "insert"))
	const review = `[{"after": "review"}]`
	for _, wrong := range []struct{ when, anyOf, after, why string }{
		{when: "review", why: "Conditions: must be JSON: "},
		{when: `[{"of": "review"}]`, why: "Conditions: must be a list of objects with after"},
		{when: `[{"after": "review", "states": ["ready"]}]`, why: `or "skipped", not "ready".`},
		{when: `[{"after": "none"}]`, why: "There is no task none to wait for."},
		{when: review, after: "review", why: "The task review is named twice: by itself, and in"},
		{when: review, after: "review", anyOf: "true", why: "waits for no others: leave these out"},
		{anyOf: "true", why: "There is no condition of which one would be enough."},
	} {
		page := previewOf(t, h, fillIn(t, form), "new-action", "publish", "new-key", "shop 1",
			"new-when", wrong.when, "any-of", wrong.anyOf, "new-after", wrong.after)
		_, beside, _ := strings.Cut(page, `<p class="missing" role="alert" id="when-problem">`)
		said, beside, _ := strings.Cut(beside, "</p>")
		wantParts(t, said, html.EscapeString(wrong.why))
		wantParts(t, beside, `aria-describedby="when-problem" autofocus>`,
			"\n"+html.EscapeString(wrong.when)+"</textarea>")
		wantParts(t, page, `value="shop 1"`, "\n"+wrong.after+"</textarea>")
		if checked := strings.Contains(page, `name="any-of" value="true" checked`); checked !=
			(wrong.anyOf != "") {
			t.Errorf("with %+v, any-of is %t", wrong, checked)
		}
	}
}

// Results that somebody may not read, or that are no text, are in no form: the page says so.
func TestInsert_CopiesNoConditionsThatNobodyCanType(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	when := func(results ...string) []stint.Condition {
		return []stint.Condition{{After: "review", Results: results}}
	}
	insert(t, store, stint.Task{ID: "review", Action: "read"},
		stint.Task{ID: "secret", Action: "publish", When: when("a secret")},
		stint.Task{ID: "binary", Action: "publish", When: when("\xff")},
		stint.Task{ID: "open", Action: "publish", When: when()})
	blind := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
		return verb != ui.ReadBodies
	}})
	for id, h := range map[stint.TaskID]*ui.Handler{
		"secret": blind, "binary": ui.New(store, open()), "open": blind,
	} {
		form := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id)), "insert"))
		filled := strings.Contains(form, html.EscapeString(`[{"after":"review"`))
		told := strings.Contains(form, "1 condition with results that you may not read, or that")
		if filled != (id == "open") || told == filled || strings.Contains(form, "a secret") {
			t.Errorf("the form to copy %s:\n%s", id, form)
		}
	}
}

// A task whose deadline has passed is inserted again with its conditions.
func TestInsert_RepeatsATaskWithItsConditions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	want := []stint.Condition{{After: "review", States: []stint.State{stint.StateAborted}}}
	insert(t, store, stint.Task{ID: "review", Action: "read"}, stint.Task{
		ID: "late", Action: "mail", Body: []byte("x"), WhenAny: want, Deadline: soon(),
	})
	_, err = pool.Exec(t.Context(), `WITH late AS (
			UPDATE stint.tasks SET deadline = deadline - interval '2 h' WHERE id = 'late'
		)
		UPDATE stint.deadlines SET deadline = deadline - interval '2 h'`)
	wantNil(t, err)
	wantNil(t, store.Maintain(t.Context()))
	wantStates(t, store, stint.StateAborted, "late")
	h := ui.New(store, open())
	id := insertedBy(t, h, previewOf(t, h, formWith(t, text(t, h, "/task?id=late"), "insert")))
	wantStates(t, store, stint.StateBlocked, id)
	if got, isAny := conditionsOf(t, store, id); !isAny ||
		!reflect.DeepEqual(got["review"], want[0]) {
		t.Errorf("inserted with %+v, %t", got, isAny)
	}
}
