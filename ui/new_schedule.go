package ui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// previewNewSchedule is the form of a new schedule or, when that was filled in, when it would
// occur.
func (h *Handler) previewNewSchedule(r *request) (data previewData, err error) {
	form := r.PostForm
	page := func(values url.Values, problem string) previewData {
		return previewData{
			Heading: "Add a schedule", Button: "Show what it would do", Next: "preview",
			Sentence: show.Say("It inserts a task whenever it occurs. Your program and the " +
				"command can add schedules of several tasks."),
			Timing: timingFormOf(values, problem),
			Schedule: &scheduleForm{
				Name: form.Get(fieldNewName), Action: form.Get(fieldNewAction),
				Key: form.Get(fieldNewKey), Body: lines(form.Get(fieldNewBody)),
				Actions: h.actionNames(r, form.Get(fieldNewAction)),
			},
		}
	}
	if !form.Has(fieldNewName) {
		return page(timingOf(&stint.Schedule{}), ""), nil
	}
	wanted, problem := readSchedule(form)
	var next []time.Time
	if problem == "" {
		if next, err = wanted.Next(r.now, nextMax); err != nil {
			problem = problemOf(err)
		}
	}
	if problem == "" {
		if problem, err = h.scheduleThere(r.Context(), wanted.Name); err != nil {
			return data, err
		}
	}
	if problem != "" {
		return page(form, problem), nil
	}
	task := newTask{Task: wanted.Tasks[0]}
	packed, err := json.Marshal(task)
	if err != nil {
		return data, err
	}
	t := target{schedule: wanted.Name}
	data = previewData{
		Heading: "Add " + t.name() + "?", Button: "Add",
		Asks:     "Reason, for those who ask later",
		Sentence: occurs("It occurs next ", next, r.now),
		Details: append([]show.Sentence{show.Say("Each time it inserts a task of the action " +
			display.Text(task.Action) + ", whose body has " +
			display.Count(int64(len(task.Body)), "byte") + ".")},
			h.unknownNow(r, task.Action, task.Key)...),
		Fields: append(t.fields(), field{fieldNewTask, string(packed)}),
	}
	data.Fields = append(data.Fields, timingFields(form)...)
	return data, nil
}

// readSchedule reads a new schedule. The problem is empty if there is none.
func readSchedule(form url.Values) (s stint.Schedule, problem string) {
	s, problem = readTiming(form, &stint.Schedule{Name: form.Get(fieldNewName)})
	task := stint.Task{Action: form.Get(fieldNewAction), Key: form.Get(fieldNewKey)}
	if text := lines(form.Get(fieldNewBody)); text != "" {
		task.Body = []byte(text)
	}
	s.Tasks = []stint.Task{task}
	return s, cmp.Or(slipIn("name", s.Name), slipIn("action", task.Action),
		slipIn("key", task.Key), problem)
}

// scheduleThere says that there is a schedule of a name; empty if there is none.
func (h *Handler) scheduleThere(ctx context.Context, name string) (problem string, err error) {
	by, ok := h.asked.Reader.(verbs.Scheduler)
	if !ok {
		return "", refuse.ErrBadForm
	}
	found, err := by.ListSchedules(ctx, name)
	if len(found) > 0 {
		problem = "There is a schedule " + show.Text(name) + " already."
	}
	return problem, err
}

// addSchedule adds a schedule, unless there is one of that name.
func (h *Handler) addSchedule(ctx context.Context, r *request) (made, error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return made{}, err
	}
	var task newTask
	decoder := json.NewDecoder(strings.NewReader(r.PostForm.Get(fieldNewTask)))
	decoder.DisallowUnknownFields()
	by, ok := h.asked.Reader.(verbs.Scheduler)
	if err := decoder.Decode(&task); err != nil || !ok || t.schedule == "" || task.SameBody {
		return made{}, refuse.ErrBadForm
	}
	wanted, problem := readTiming(r.PostForm, &stint.Schedule{
		Name: t.schedule, Tasks: []stint.Task{task.Task},
	})
	if problem != "" {
		return t.made(), refuse.NotUnderstood(problem + " Nothing was changed.")
	}
	switch problem, err = h.scheduleThere(ctx, t.schedule); {
	case err != nil:
		return t.made(), err
	case problem != "":
		return t.made(), refuse.ErrScheduleThere
	}
	if err := by.EnsureSchedules(ctx, []stint.Schedule{wanted}); err != nil {
		return t.made(), err
	}
	found, err := by.ListSchedules(ctx, t.schedule) // of another one that was faster
	switch {
	case err != nil:
		return t.made(), err
	case len(found) == 0:
		return t.made(), refuse.ErrNoSchedule
	case !isAs(&found[0], wanted):
		return t.made(), refuse.ErrScheduleThere
	}
	return t.made(), nil
}

// isAs reports whether a schedule is as somebody wants it, as far as he may read it.
func isAs(now *stint.ScheduleInfo, wanted stint.Schedule) bool {
	wanted.Zone = cmp.Or(wanted.Zone, "UTC")
	if now.Hidden {
		wanted.Tasks = slices.Clone(wanted.Tasks)
		for i := range wanted.Tasks {
			wanted.Tasks[i].Body = nil
		}
	}
	a, errA := json.Marshal(now.Schedule)
	b, errB := json.Marshal(wanted)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// previewDeletion says what ends with a schedule.
func (h *Handler) previewDeletion(r *request) (data previewData, err error) {
	t, _, now, err := h.scheduleOf(r.Context(), r)
	if err != nil {
		return data, err
	}
	data = previewData{
		Heading: "Delete " + t.name() + "?", Button: "Delete",
		Asks:     "Reason, for those who ask later",
		Sentence: show.Say("It inserts no tasks any more. Those that it has inserted stay."),
		Fields:   append(t.fields(), field{"seen", microsOf(now.ChangedAt)}),
	}
	if !now.PausedSince.IsZero() {
		data.Details = []show.Sentence{show.Say("It is paused now, and occurs no more until it " +
			"is resumed.")}
	} else if next, err := now.Next(r.now, nextMax); err == nil {
		data.Details = []show.Sentence{occurs("Otherwise it would occur next ", next, r.now)}
	}
	if name, ok := show.Arguments(t.schedule); ok {
		data.Command = "stint schedule rm " + name
	}
	return data, nil
}

// deleteSchedule deletes a schedule, unless somebody has changed it since it was seen.
func (h *Handler) deleteSchedule(ctx context.Context, r *request) (made, error) {
	t, by, now, err := h.scheduleOf(ctx, r)
	switch {
	case err != nil:
		return t.made(), err
	case microsOf(now.ChangedAt) != r.PostForm.Get("seen"):
		return t.made(), refuse.ErrScheduleChanged
	}
	return t.made(), by.DeleteSchedules(ctx, t.schedule)
}
