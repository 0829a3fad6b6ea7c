package notices

import (
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

const (
	// maintainedWithin is how late what stores do by the way may be: a second is usual.
	maintainedWithin = time.Minute
	// leaseLong is for how long a task may stay with an owner that nobody watches.
	leaseLong = 15 * time.Minute
)

// OfUntold are aborted tasks of which no group of errors tells. Those that went with others are one
// notice: mostly they went with the same.
func OfUntold(untold []ask.Untold) (all []Notice) {
	var cascades []any
	var first *ask.Untold
	for i := range untold {
		c := &untold[i]
		number := display.Count(int64(c.Tasks), "task")
		if c.OrMore {
			number = "at least " + number
		}
		counted := show.Part{Text: number, Link: show.Link(
			"tasks", "action", c.Action, "state", string(stint.StateAborted),
		)}
		if c.Cause == stint.CauseDependency {
			if first == nil {
				first = c
			} else {
				cascades = append(cascades, ", ")
			}
			cascades = append(cascades, show.Action(c.Action), ": ", counted)
			continue
		}
		said := " were aborted, such as " + display.Text(string(c.Example))
		if c.Tasks == 1 && !c.OrMore {
			said = " was aborted"
		}
		all = append(all, notice(c, show.Action(c.Action), ": ", counted, said+": "+
			why.Cause(c.Action, c.Cause)+"."))
	}
	if first == nil {
		return all
	}
	said := " were aborted since tasks that they depend on were."
	if len(cascades) == 3 && first.Tasks == 1 && !first.OrMore { //nolint:mnd // one action
		said = " was aborted since a task that it depends on was."
	}
	return append(all, notice(first, append(cascades, said)...))
}

// notice leads to the example.
func notice(c *ask.Untold, said ...any) Notice {
	return Notice{
		Bad: true, Where: show.Link("task", "id", string(c.Example)),
		Key: "untold " + string(c.Cause) + " " + c.Action, What: show.Say(said...),
	}
}

// OfFar are tasks that start so late that it may be a mistake.
func OfFar(strays ask.Strays, now time.Time) []Notice {
	n := len(strays.Far)
	if n == 0 {
		return nil
	}
	verb, what := " are", display.Count(int64(n), "task")
	if n == 1 {
		verb = " is"
	}
	if strays.FarMore {
		what = "At least " + what
	}
	last := &strays.Far[n-1]
	return []Notice{{
		Where: strays.FarLink, Key: "far",
		What: show.Say(what+verb+" scheduled for more than a year from now: ",
			show.Part{
				Text: display.Text(string(last.ID)), Link: show.Link("task", "id", string(last.ID)),
			}, " starts ", show.NewMoment(last.NotBefore, now), "."),
	}}
}

// OfUnwatched are tasks that stay long with owners that may be gone.
func OfUnwatched(found stint.Problems, now time.Time) []Notice {
	long := slices.DeleteFunc(slices.Clone(found.Unwatched), func(task stint.TaskInfo) bool {
		return !task.LeaseUntil.IsZero() && task.LeaseUntil.Sub(now) < leaseLong
	})
	if len(long) == 0 {
		return nil
	}
	verb := "s are"
	if len(long) == 1 {
		verb = " is"
	}
	number := display.Number(int64(len(long)))
	if len(found.Unwatched) >= ask.ProblemsMax {
		number = "At least " + number
	}
	said := []any{number + " task" + verb + " owned by processes that " +
		"nobody watches: if these are gone, "}
	if first := long[0].LeaseUntil; first.IsZero() {
		said = append(said, "tasks without an expiry stay with them until somebody aborts these.")
	} else {
		owner := show.Actor(long[0].Actor)
		owner.Link = show.Link("tasks", "actor", string(long[0].Actor),
			"state", string(stint.StateInProgress))
		said = append(said, "the last lease, of ", owner, ", expires ",
			show.NewMoment(first, now), ".")
	}
	return []Notice{{Where: "actors", Key: "unwatched", What: show.Say(said...)}}
}

// OfSkipping are schedules that leave their occurrences out, since tasks of the last one have not
// ended.
func OfSkipping(schedules []stint.ScheduleInfo, now time.Time) (all []Notice) {
	for i := range schedules {
		s := &schedules[i]
		if s.Overlap != stint.OverlapSkip || s.NextAt.IsZero() || len(s.LastIDs) == 0 {
			continue
		}
		after, err := s.Next(s.LastAt, 1)
		if err != nil || len(after) == 0 || !after[0].Before(s.NextAt) {
			continue
		}
		id := s.Name + "/" + s.LastAt.UTC().Format(time.RFC3339Nano) // see stint.Schedule.Tasks
		link := show.Link("tasks", "prefix", id)
		if len(s.LastIDs) == 1 {
			id = string(s.LastIDs[0])
			link = show.Link("task", "id", id)
		}
		all = append(all, Notice{
			Where: "schedules", Key: "skipping " + s.Name,
			What: show.Say("The schedule "+display.Text(s.Name)+" left its last occurrences out, "+
				"since tasks of the one ", show.NewMoment(s.LastAt, now), " had not ended: ",
				show.Part{Text: display.Text(id), Link: link}, "."),
		})
	}
	return atMost(all, "schedules leave occurrences out", "schedules")
}

// OfMaintenance says that no store does what happens by the way, if something is late that takes a
// second where one does.
func OfMaintenance(
	strays ask.Strays, slow []stint.TaskInfo, schedules []stint.ScheduleInfo, now time.Time,
) []Notice {
	late := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) > maintainedWithin }
	var first time.Time
	var what []string
	note := func(n int, orMore bool, one, many string, since time.Time) {
		if n == 0 {
			return
		}
		text := display.Number(int64(n)) + " " + many
		switch {
		case orMore:
			text = "at least " + text
		case n == 1:
			text = "a " + one
		}
		what = append(what, text)
		if first.IsZero() || since.Before(first) {
			first = since
		}
	}
	if strays.Due != nil && late(strays.Due.NotBefore) {
		note(1, false, "scheduled task has not become ready", "", strays.Due.NotBefore)
	}
	expired, since := 0, now
	for i := range slow {
		if t := slow[i].LeaseUntil; late(t) {
			expired++
			if t.Before(since) {
				since = t
			}
		}
	}
	note(expired, expired > 0 && len(slow) >= ask.ProblemsMax, "lease has expired and is held",
		"leases have expired and are held", since)
	missed, since := 0, now
	for i := range schedules {
		if t := schedules[i].NextAt; late(t) && schedules[i].PausedSince.IsZero() {
			missed++
			if t.Before(since) {
				since = t
			}
		}
	}
	note(missed, false, "schedule has not inserted its tasks",
		"schedules have not inserted their tasks", since)
	if len(what) == 0 {
		return nil
	}
	return []Notice{{
		Bad: true, Key: "maintenance",
		What: show.Say("Nobody maintains the store, it seems, or something holds that up, since ",
			show.NewMoment(first, now), ": "+strings.Join(what, ", ")+". A program with a store "+
				"does, such as a worker, and its log says what fails."),
	}}
}
