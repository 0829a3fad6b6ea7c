package ui_test

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// scheduleForm is the form of the row of a schedule.
func scheduleForm(t *testing.T, h http.Handler, name, do string) sentForm {
	t.Helper()
	_, row, _ := strings.Cut(text(t, h, "/schedules"), `<tr data-key="`+name+`"`)
	_, row, _ = strings.Cut(row, "<form")
	row, _, _ = strings.Cut(row, "</form>")
	return formWith(t, "<form"+row+"</form>", do)
}

// A schedule is added as the form has it, once, and takes the place of none.
func TestSchedule_IsAdded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		insert(t, store, stint.Task{ID: stint.TaskID(name), Action: name + "-reports"})
		form := previewOf(t, h, formWith(t, text(t, h, "/schedules"), "new-schedule"))
		said := []string{
			"new-name", name + "/new", "new-action", name + "-report", "new-key", "shop 1",
			"new-body", "{\r\n \"a\": 1}", "spec", "30 4 * * *", "zone", "Europe/Berlin",
			"catch-up", "2", "window", "2h", "overlap", "1", "jitter", "90s", "expire", "true",
		}
		for wrong, why := range map[[2]string]string{
			{"spec", "often"}:      "Schedule.Spec",
			{"new-action", ""}:     "action",
			{"jitter", "a while"}:  "must be a length of time",
			{"new-name", "a\x1bb"}: "The name",
		} {
			again := previewOf(t, h, fillIn(t, form), append(slices.Clone(said), wrong[0],
				wrong[1])...)
			wantParts(t, again, `role="alert"`, why, `value="2h"`, "a&#34;: 1}</textarea>")
		}
		preview := previewOf(t, h, fillIn(t, form), said...)
		wantParts(t, preview, "It occurs next ", "of the action "+name+"-report, whose body has "+
			"10 bytes.", "did you mean &#34;"+name+"-reports&#34;?")
		wantParts(t, agree(t, h, preview), "Added the schedule "+name+"/new.")
		wantParts(t, previewOf(t, h, fillIn(t, form), said...), "There is a schedule "+name+
			"/new already.")
		refusedNow(t, h, preview, "There is a schedule of this name by now") // by a second click
		found, err := store.ListSchedules(t.Context(), name+"/new")
		wantNil(t, err)
		got := found[0].Schedule
		if task := got.Tasks[0]; got.Spec != "30 4 * * *" || got.Zone != "Europe/Berlin" ||
			got.CatchUp != stint.CatchUpAll || got.Window != 2*time.Hour || !got.Expire ||
			got.Overlap != stint.OverlapSkip || got.Jitter != 90*time.Second ||
			len(got.Tasks) != 1 || task.Action != name+"-report" || task.Key != "shop 1" ||
			string(task.Body) != "{\n \"a\": 1}" {
			t.Errorf("%s: the schedule is %+v", name, got)
		}
	}
}

// Who may not insert tasks adds no schedule, which would.
func TestSchedule_IsAddedByWhoMayInsertOnly(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	all := ui.New(store, open())
	form := formWith(t, text(t, all, "/schedules"), "new-schedule")
	agreed := agreement(t, previewOf(t, all, fillIn(t, previewOf(t, all, form)),
		"new-name", "hourly", "new-action", "mail", "spec", "@hourly"))
	for _, may := range []ui.Verb{ui.Schedule, ui.Insert} {
		h := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
			return verb == ui.Read || verb == may
		}})
		if page := text(t, h, "/schedules"); strings.Contains(page, "new-schedule") {
			t.Errorf("with %s, it is offered", may)
		}
		for _, f := range []sentForm{form, agreed} {
			if got := send(t, h, f).StatusCode; got != http.StatusForbidden {
				t.Errorf("with %s, the form for %s is answered by %d", may, f.action, got)
			}
		}
	}
}

// A schedule is deleted, unless it was changed since it was seen. What it has inserted stays.
func TestSchedule_IsDeleted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		put := stint.Schedule{
			Name: name, Spec: "0 3 * * *", Tasks: []stint.Task{{Action: "report"}},
		}
		wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{put}))
		id, err := store.TriggerSchedule(t.Context(), name)
		wantNil(t, err)
		old := previewOf(t, h, scheduleForm(t, h, name, "delete-schedule"))
		wantParts(t, old, "It inserts no tasks any more. Those that it has inserted stay.",
			"Otherwise it would occur next ", "stint schedule rm "+name)
		put.Jitter = time.Second
		wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{put}))
		refusedNow(t, h, old, "Somebody has changed the schedule")
		preview := previewOf(t, h, scheduleForm(t, h, name, "delete-schedule"))
		wantParts(t, agree(t, h, preview), "Deleted the schedule "+name+".")
		found, err := store.ListSchedules(t.Context(), name)
		wantNil(t, err)
		if len(found) > 0 {
			t.Errorf("%s: it is there: %+v", name, found)
		}
		wantStates(t, store, stint.StateReady, id)
		response := send(t, h, agreement(t, preview))
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: the same form again: %s", name, response.Status)
		}
	}
}

// A racer is a store in which somebody else is faster.
type racer struct {
	*stint.Store

	puts  *stint.Schedule
	hides bool // bodies, as a service may
}

// ListSchedules may leave bodies out.
func (r racer) ListSchedules(ctx context.Context, names ...string) ([]stint.ScheduleInfo, error) {
	found, err := r.Store.ListSchedules(ctx, names...)
	for i := range found {
		if r.hides {
			found[i].Hidden, found[i].Tasks[0].Body = true, nil
		}
	}
	return found, err
}

// EnsureSchedules comes after the other one.
func (r racer) EnsureSchedules(ctx context.Context, all []stint.Schedule) error {
	if err := r.PutSchedules(ctx, []stint.Schedule{*r.puts}); err != nil {
		return err
	}
	return r.Store.EnsureSchedules(ctx, all)
}

// Of two who add a schedule of one name at the same moment, one is told that it was not added,
// unless both want the same.
func TestSchedule_IsNotSaidToBeAddedIfAnotherWas(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	wanted := func(name string) stint.Schedule {
		return stint.Schedule{
			Name: name, Spec: "@hourly", Tasks: []stint.Task{{Action: "mail", Body: []byte("x")}},
		}
	}
	for name, edit := range map[string]func(*stint.Schedule){
		"same":   func(*stint.Schedule) {},
		"hidden": func(*stint.Schedule) {},
		"spec":   func(s *stint.Schedule) { s.Spec = "@daily" },
		"zone":   func(s *stint.Schedule) { s.Zone = "Europe/Berlin" },
		"body":   func(s *stint.Schedule) { s.Tasks[0].Body = nil },
		"tasks":  func(s *stint.Schedule) { s.Tasks[0].Priority = 1 },
		"action": func(s *stint.Schedule) { s.Tasks[0].Action = "sms" },
	} {
		others := wanted(name)
		edit(&others)
		h := ui.New(racer{store, &others, name == "hidden"}, open())
		form := previewOf(t, h, formWith(t, text(t, h, "/schedules"), "new-schedule"))
		preview := previewOf(t, h, fillIn(t, form), "new-name", name, "new-action", "mail",
			"new-body", "x", "spec", "@hourly")
		if name == "same" || name == "hidden" {
			wantParts(t, agree(t, h, preview), "Added the schedule "+name+".")
		} else {
			refusedNow(t, h, preview, "There is a schedule of this name by now")
		}
		found, err := store.ListSchedules(t.Context(), name)
		wantNil(t, err)
		if others.Zone == "" {
			others.Zone = "UTC"
		}
		if !reflect.DeepEqual(found[0].Schedule, others) {
			t.Errorf("the schedule of the other one is now %+v", found[0].Schedule)
		}
	}
}
