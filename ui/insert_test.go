package ui_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// A task is inserted as the form has it, once, and a copy has what the form does not change, also a
// body that nobody can type.
func TestInsert_DoesWhatTheFormSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := func(short string) stint.TaskID { return stint.TaskID(name + "/" + short) }
		get := func(id stint.TaskID) stint.TaskInfo {
			found, err := store.GetTasks(t.Context(), []stint.TaskID{id})
			wantNil(t, err)
			return found[0]
		}
		binary := []byte("\x00\xff\r\n")
		insert(t, store, stint.Task{
			ID: id("binary"), Action: "mail", Key: "k", Priority: -3, MaxTries: 7, Body: binary,
			Headers: map[string]string{"tenant": "acme"}, PostResult: true, Cost: 5,
		})
		form := previewOf(t, h, formWith(t, text(t, h, "/tasks"), "insert"))
		said := []string{
			"new-id", string(id("new")), "new-action", "mail", "new-key", "shop 1",
			"new-body", "{\r\n \"a\": 1}", "new-priority", "5", "new-max-tries", "-1",
			"new-after", string(id("binary")), "new-headers", "tenant=a=b\r\n", "start", "1h0m0s",
			"new-cost", "7", "new-deadline", "2099-12-24T18:30:15",
		}
		wrong := previewOf(t, h, fillIn(t, form), append(slices.Clone(said),
			"new-after", "none")...)
		wantParts(t, wrong, "There is no task none to wait for.", "\nnone</textarea>",
			`value="shop 1"`)
		preview := previewOf(t, h, fillIn(t, form), said...)
		wantParts(t, preview, "Inserts a task of the action mail. It begins ",
			"after the end of 1 task.",
			"Its body has 10 bytes.", "It has 1 header.", "It costs 7, where costs count.",
			"It is aborted <time", "if it has not ended by then.")
		later := sentenceOf(t, previewOf(t, h, fillIn(t, form), append(slices.Clone(said),
			"new-after", "")...))
		if later != "Inserts a task of the action mail." {
			t.Errorf("%s: of a task that begins later, the page says %q", name, later)
		}
		wantParts(t, agree(t, h, preview), "Inserted <a")
		task := get(id("new"))
		if task.Action != "mail" || task.Key != "shop 1" || string(task.Body) != "{\n \"a\": 1}" ||
			task.Priority != 5 || task.MaxTries != stint.UnlimitedTries ||
			task.Cost != 7 || !task.Deadline.Equal(
			time.Date(2099, 12, 24, 18, 30, 15, 0, time.UTC)) ||
			task.Headers["tenant"] != "a=b" || task.State != stint.StateBlocked ||
			time.Until(task.NotBefore).Round(10*time.Minute) != time.Hour {
			t.Errorf("%s: inserted was %+v", name, task)
		}
		response := send(t, h, agreement(t, preview))
		if content := body(t, response); response.StatusCode != http.StatusConflict ||
			!strings.Contains(content, "There is a task with this ID already") {
			t.Errorf("the same form again: %s\n%s", response.Status, content)
		}
		form = previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id("binary"))), "insert"))
		wantParts(t, form, `value="-3"`, `value="k"`, "tenant=acme\n",
			`name="same-body" value="true" checked`)
		told := agree(t, h, previewOf(t, h, fillIn(t, form), "new-key", "other"))
		_, rest, _ := strings.Cut(told, `href="task?id=`)
		link, _, _ := strings.Cut(rest, `"`)
		copied, err := url.QueryUnescape(link)
		wantNil(t, err)
		task = get(stint.TaskID(copied))
		if task.ID == id("binary") || task.Key != "other" || !bytes.Equal(task.Body, binary) ||
			task.Priority != -3 || task.MaxTries != 7 || task.Cost != 5 || !task.PostResult ||
			task.Headers["tenant"] != "acme" {
			t.Errorf("%s: the copy is %+v", name, task)
		}
	}
}

// A form with a value that is wrong is shown again, with what is wrong.
func TestInsert_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := ui.New(newStore(t), open())
	form := previewOf(t, h, formWith(t, text(t, h, "/tasks"), "insert"))
	for _, wrong := range [][3]string{
		{"new-deadline", "2020-12-24T18:30", "The deadline has passed."},
		{"new-deadline", "soon", "The deadline must be a date and a time of day."},
		{"new-cost", "-1", "The cost must not be negative."},
	} {
		again := previewOf(t, h, fillIn(t, form), "new-action", "mail", wrong[0], wrong[1])
		wantParts(t, again, wrong[2], `value="`+wrong[1]+`"`)
	}
	again := previewOf(t, h, fillIn(t, form), "new-action", "mail", "new-headers", "tenant")
	wantParts(t, again, "A header is a name and a value, with = between them.")
}

// A schedule is edited in when it occurs; what it inserts stays.
func TestSchedule_IsEdited(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		put := stint.Schedule{
			Name: name, Spec: "0 3 * * *",
			Tasks: []stint.Task{{Action: "report", Body: []byte("all of it"), Priority: 4}},
		}
		wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{put}))
		_, row, _ := strings.Cut(text(t, h, "/schedules"), `<tr data-key="`+name+`"`)
		_, row, _ = strings.Cut(row, "<form")
		row, _, _ = strings.Cut(row, "</form>")
		form := previewOf(t, h, formWith(t, "<form"+row+"</form>", "schedule"))
		wantParts(t, form, `value="0 3 * * *"`)
		wantParts(t, previewOf(t, h, fillIn(t, form), "spec", "often"), `role="alert"`,
			`value="often"`)
		preview := previewOf(t, h, fillIn(t, form), "spec", "30 4 * * *",
			"zone", "Europe/Berlin", "catch-up", "2", "window", "2h", "overlap", "1",
			"jitter", "90s", "expire", "true")
		wantParts(t, preview, "It occurs next ", "As it is now, that is ")
		wantParts(t, agree(t, h, preview), "Changed the schedule "+name)
		agree(t, h, preview) // by a second click
		found, err := store.ListSchedules(t.Context(), name)
		wantNil(t, err)
		got := found[0].Schedule
		if got.Spec != "30 4 * * *" || got.Zone != "Europe/Berlin" ||
			got.CatchUp != stint.CatchUpAll || got.Window != 2*time.Hour ||
			got.Overlap != stint.OverlapSkip || got.Jitter != 90*time.Second || !got.Expire ||
			len(got.Tasks) != 1 || string(got.Tasks[0].Body) != "all of it" ||
			got.Tasks[0].Priority != 4 {
			t.Errorf("%s: the schedule is %+v", name, got)
		}
		preview = previewOf(t, h, fillIn(t, form), "spec", "5 5 * * *")
		put.Jitter = time.Second
		wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{put}))
		refusedNow(t, h, preview, "Somebody has changed the schedule")
	}
}

// A task whose deadline has passed is inserted again as it was, without the deadline.
func TestInsert_RepeatsATaskThatWasTooLate(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	insert(t, store, stint.Task{
		ID: "late", Action: "mail", Body: []byte("x"), Cost: 5, Deadline: soon(),
	})
	_, err = pool.Exec(t.Context(), `WITH late AS (
			UPDATE stint.tasks SET deadline = deadline - interval '2 h'
		)
		UPDATE stint.deadlines SET deadline = deadline - interval '2 h'`)
	wantNil(t, err)
	wantNil(t, store.Maintain(t.Context()))
	wantStates(t, store, stint.StateAborted, "late")
	h := ui.New(store, open())
	agree(t, h, previewOf(t, h, formWith(t, text(t, h, "/task?id=late"), "insert")))
	found, err := store.ListTasks(t.Context(), stint.Filter{
		States: []stint.State{stint.StateReady},
	})
	wantNil(t, err)
	if len(found.Tasks) != 1 || found.Tasks[0].Cost != 5 || !found.Tasks[0].Deadline.IsZero() {
		t.Errorf("inserted are %+v", found.Tasks)
	}
}
