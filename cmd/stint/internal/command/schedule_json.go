package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/wire"
)

// nextSchedule returns the next schedule, and the line that it begins on; io.EOF after the last
// one, or an error that says what is wrong with it and where.
func (d *decoder) nextSchedule() (schedule stint.Schedule, line int, err error) {
	if err := d.object("schedule"); err != nil {
		return schedule, 0, err
	}
	start, paused := d.start(), false
	_, err = d.members(start, len(d.text), func(name string, value json.RawMessage, at int) error {
		switch {
		case string(value) == "null":
		case name == "tasks":
			schedule.Tasks, err = d.tasksOf(value, at)
			return err
		case name == "paused_since":
			paused = true
		}
		return setScheduleField(&schedule, name, value)
	})
	switch {
	case err != nil:
		return schedule, 0, err
	case schedule.Name == "":
		return schedule, 0, d.wrong(start, "name is missing")
	case schedule.Spec == "":
		return schedule, 0, d.wrong(start, "spec is missing")
	case len(schedule.Tasks) == 0:
		return schedule, 0, d.wrong(start, "tasks are missing")
	}
	line = d.line + newlines(d.text[:start])
	d.tasks++
	d.pass()
	if paused {
		d.paused = append(d.paused, schedule.Name)
	}
	return schedule, line, nil
}

// tasksOf reads a list of tasks, which is at this place of the text.
func (d *decoder) tasksOf(list json.RawMessage, at int) ([]stint.Task, error) {
	items := json.NewDecoder(bytes.NewReader(list))
	if first, err := items.Token(); err != nil || first != json.Delim('[') {
		return nil, d.wrong(at, "tasks: must be a list of objects")
	}
	var tasks []stint.Task
	for items.More() {
		var item json.RawMessage
		if err := items.Decode(&item); err != nil {
			return nil, d.wrong(at, "%v", err)
		}
		end := at + int(items.InputOffset())
		if item[0] != '{' {
			return nil, d.wrong(end-len(item), "expected an object for each task")
		}
		task, err := d.task(end-len(item), end)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// setScheduleField sets the field of that name. A null does the same as leaving the field out, and
// what a schedule has come to, which ls prints, is not taken over.
func setScheduleField(schedule *stint.Schedule, name string, value json.RawMessage) error {
	switch name {
	case "tasks":
		return nil
	case "name":
		return read(&schedule.Name, value, name, "a string")
	case "spec":
		return read(&schedule.Spec, value, name, "a string")
	case "zone":
		return read(&schedule.Zone, value, name, "a string")
	case "catch_up":
		return readWord(&schedule.CatchUp, value, name, wire.CatchUps())
	case "overlap":
		return readWord(&schedule.Overlap, value, name, wire.Overlaps())
	case "window":
		return readSpan(&schedule.Window, value, name)
	case "jitter":
		return readSpan(&schedule.Jitter, value, name)
	case "from":
		return readTime(&schedule.From, value, name)
	case "to":
		return readTime(&schedule.To, value, name)
	case "expire":
		return read(&schedule.Expire, value, name, "true or false")
	case "next_at", "last_at", "last_ids", "missed", "skipped", "paused_since", "changed_at":
		return nil
	case "hidden":
		return errors.New("bodies of its tasks were left out, since you may not read them: " +
			"to put it again as it is printed would empty them")
	}
	return fmt.Errorf("unknown field %q (see: stint help schedule put)", name)
}

// readWord reads one of the words for a value. Without one, the value stays as it is.
func readWord[T ~int16](into *T, value json.RawMessage, name string, words []string) error {
	want := "one of " + strings.Join(words, ", ")
	return readText(into, value, name, want, func(text string) (T, error) {
		at := slices.Index(words, text)
		if at < 0 {
			return 0, errInput
		}
		return T(at), nil
	})
}

func readSpan(into *time.Duration, value json.RawMessage, name string) error {
	const want = `a time with its unit, such as "90s" or "1h30m"`
	return readText(into, value, name, want, time.ParseDuration)
}

// A scheduleJSON is a schedule as ls prints it and put reads it.
type scheduleJSON struct {
	Name        string              `json:"name"`
	Spec        string              `json:"spec"`
	Zone        string              `json:"zone"`
	Tasks       []scheduledTaskJSON `json:"tasks"`
	CatchUp     string              `json:"catch_up"`
	Window      string              `json:"window,omitzero"`
	Overlap     string              `json:"overlap"`
	Jitter      string              `json:"jitter,omitzero"`
	From        time.Time           `json:"from,omitzero"`
	To          time.Time           `json:"to,omitzero"`
	Expire      bool                `json:"expire,omitzero"`
	NextAt      time.Time           `json:"next_at,omitzero"`
	LastAt      time.Time           `json:"last_at,omitzero"`
	LastIDs     []stint.TaskID      `json:"last_ids,omitempty"`
	Missed      int64               `json:"missed"`
	Skipped     int64               `json:"skipped"`
	PausedSince time.Time           `json:"paused_since,omitzero"`
	ChangedAt   time.Time           `json:"changed_at"`
	Hidden      bool                `json:"hidden,omitzero"`
}

func newScheduleJSON(info *stint.ScheduleInfo) scheduleJSON {
	document := scheduleJSON{
		Name: info.Name, Spec: info.Spec, Zone: info.Zone,
		CatchUp: wordOf(info.CatchUp, wire.CatchUps()), Window: spanText(info.Window),
		Overlap: wordOf(info.Overlap, wire.Overlaps()), Jitter: spanText(info.Jitter),
		From: utc(info.From), To: utc(info.To), Expire: info.Expire,
		NextAt: utc(info.NextAt), LastAt: utc(info.LastAt), LastIDs: info.LastIDs,
		Missed: info.Missed, Skipped: info.Skipped,
		PausedSince: utc(info.PausedSince), ChangedAt: utc(info.ChangedAt),
		Hidden: info.Hidden,
	}
	for i := range info.Tasks {
		document.Tasks = append(document.Tasks, newScheduledTaskJSON(&info.Tasks[i]))
	}
	return document
}

// wordOf is the word for a value. One that a later release has put may have none here.
func wordOf[T ~int16](value T, words []string) string {
	if value < 0 || int(value) >= len(words) {
		return ""
	}
	return words[value]
}

// spanText is a duration as readSpan reads it, empty for none.
func spanText(span time.Duration) string {
	if span == 0 {
		return ""
	}
	return withoutZeros(span.String())
}

// refusedSchedule says which schedule of a source the store refuses, in the words of the source.
func refusedSchedule(err error, source string, lines map[string]int) error {
	var about *stint.ScheduleError
	if !errors.As(err, &about) || len(about.Names) != 1 {
		return err
	}
	name := about.Names[0]
	var refused *stint.ArgumentError
	if !errors.As(err, &refused) {
		return fmt.Errorf("%s: line %d: schedule %q: %w", source, lines[name], name, about.Err)
	}
	field := scheduleField(refused)
	if refused.Index >= 0 {
		field = fmt.Sprintf("task %d: %s", refused.Index+1, field)
	}
	return fmt.Errorf("%s: %w: line %d: schedule %q: %s", source, errInput, lines[name], name,
		field)
}

// scheduleField says what is wrong with a field of a schedule, or of a task of it. It names the
// field as the input does.
func scheduleField(refused *stint.ArgumentError) string {
	return strings.NewReplacer("from and To", "from and to", "see Expire", "see expire").
		Replace(refusedField(refused))
}
