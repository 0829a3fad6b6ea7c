// Package notices says what needs attention, as far as counts and errors tell.
package notices

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A Notice is something that needs attention, or may.
type Notice struct {
	Bad   bool
	What  show.Sentence
	Where string // a page that tells more
	Key   string // what tells it from the others
	Mend  Mend
	Of    string // the action of which ready tasks wait; empty if it is about something else
	age   time.Duration
}

// A Mend is a change that mends what a notice tells of, by the name that forms have for it, and of
// what. It is zero where there is none.
type Mend struct{ Do, Action, LimitKey, Schedule string }

const (
	// ReadyLong is for how long a task may be ready before somebody should know.
	ReadyLong = time.Minute
	// behindLong is for how long, although somebody asks for tasks of the action, or does so now
	// and then.
	behindLong = 10 * time.Minute
	// pruningLong is how far pruning may be behind: half a minute is usual.
	pruningLong = 5 * time.Minute
	// Most is how many notices of a kind there are.
	Most = 5
)

// Of says what counts tell of, the worst first. The tasks in progress that were fetched longest ago
// are slow.
func Of(
	stats stint.Stats, slow []stint.TaskInfo, actors []stint.ActorInfo,
	silences map[string]ask.Silence, answersFrom string, partly bool, now time.Time,
) []Notice {
	registered := map[string]performers{}
	for _, actor := range actors {
		for _, action := range actor.Actions {
			p := registered[action]
			registered[action] = performers{p.actors + 1, p.tasks + actor.Tasks}
		}
	}
	var all []Notice
	var stuck, paused, answers []Notice
	for i := range stats.Actions {
		a := &stats.Actions[i]
		waits := display.Count(a.Ready, "task")
		page := show.Link("action", "name", a.Action)
		switch {
		case a.Action == stint.External && a.Ready > 0:
			answers = append(answers, ofAnswers(a, answersFrom))
		case a.Action == stint.External || a.Action == stint.Spontaneous:
		case a.Paused:
			paused = append(paused, Notice{
				What:  show.Say(show.Action(a.Action), " is paused: "+waits+" ready."),
				Where: page, Key: "paused " + a.Action,
			})
		case a.OldestReady > ReadyLong && a.InProgress == 0 && registered[a.Action].actors == 0:
			stuck = append(stuck, Notice{
				Bad: a.Ready > a.Parked, Where: page, Key: "stuck " + a.Action, Of: a.Action,
				age: a.OldestReady,
				What: show.Say("No registered actor"+show.Seen(partly)+" performs ",
					show.Action(a.Action), ": "+waits+" ready"+oldest(a)+heldUp(a)+"."),
			})
		case silences[a.Action] != ask.Silence{}, a.OldestReady > behindLong,
			a.OldestReady > ReadyLong && heldUp(a) != "":
			stuck = append(stuck, ofLate(a, slow, silences[a.Action], registered[a.Action], now))
		}
	}
	slices.SortStableFunc(stuck, func(a, b Notice) int { return cmp.Compare(b.age, a.age) })
	all = append(all, atMost(stuck, "actions wait", "actions")...)
	all = append(all, atMost(paused, morePaused, "actions")...)
	all = append(all, answers...)
	if stats.Copy != "" {
		all = append(all, Notice{
			Bad: true, Key: "copy",
			What: show.Say("The database is a copy (" + display.Text(stats.Copy) + "): no task " +
				"is handed out and no schedule fires until somebody runs stint adopt."),
		})
	}
	if stats.PruningBehind > pruningLong {
		all = append(all, Notice{
			Bad: true, Key: "pruning", Where: "actors",
			What: show.Say("Pruning is " + display.Span(stats.PruningBehind) +
				" behind: no store maintains this one, or they cannot keep up."),
		})
	}
	return WorstFirst(all)
}

// performers are the actors registered for an action, and how many tasks of any they own.
type performers struct{ actors, tasks int }

// ofLate says of an action that its tasks wait, and what for.
func ofLate(
	a *stint.ActionStats, slow []stint.TaskInfo, s ask.Silence, registered performers,
	now time.Time,
) Notice {
	said := []any{
		show.Action(a.Action), " is behind: " + display.Count(a.Ready, "task") + " ready" +
			oldest(a) + heldUp(a),
	}
	isSilent := s != ask.Silence{}
	idle := isSilent && a.InProgress == 0
	least := behindLong
	switch {
	case idle:
		said = append(said, ofIdle(s, registered, now)...)
	case isSilent:
		least = ReadyLong
		said = append(said, "; nobody has asked for more for "+display.Span(now.Sub(s.Since)))
	}
	said = append(append(said, slowOf(slow, a, least, now)...), ".")
	return Notice{
		Bad: idle && registered.tasks == 0, Key: "late " + a.Action,
		Where: show.Link("action", "name", a.Action),
		Of:    a.Action, age: a.OldestReady, Mend: mendOf(a), What: show.Say(said...),
	}
}

// ofIdle says since when nobody asks for an action of which no task is in progress, although
// actors are registered for it.
func ofIdle(s ask.Silence, registered performers, now time.Time) []any {
	said := "; nobody has asked for them for " + display.Span(now.Sub(s.Since))
	if s.Never {
		said = "; nobody has asked for any"
	}
	n := int64(registered.actors)
	number := show.Part{Text: display.Count(n, "actor"), Link: "actors"}
	switch {
	case registered.tasks > 0:
		have := " registered for it have "
		if n == 1 {
			number.Text, have = "actor", " registered for it has "
		}
		return []any{
			said + ": the ", number, have + display.Count(int64(registered.tasks), "other task") +
				" in progress",
		}
	case n == 1:
		return []any{
			said + ", though ", number, " is registered for it, which hangs, or lacks what it " +
				"needs: its log may tell",
		}
	}
	return []any{
		said + ", though ", number, " are registered for it, which hang, or lack what they " +
			"need: their logs may tell",
	}
}

// oldest says for how long the first of the ready tasks of an action has been ready.
func oldest(a *stint.ActionStats) string {
	return ", the oldest for " + display.Span(a.OldestReady)
}

// ofAnswers says how many tasks wait for answers.
func ofAnswers(a *stint.ActionStats, answersFrom string) Notice {
	verb := " wait"
	if a.Ready == 1 {
		verb = " waits"
	}
	return Notice{
		What: show.Say(display.Count(a.Ready, "task") + verb + " for an answer " + answersFrom +
			oldest(a) + "."),
		Where: "waiting", Key: "answers",
	}
}

// mendOf is to set the limits of an action, if its limit is full.
func mendOf(a *stint.ActionStats) (m Mend) {
	if IsFull(a) {
		m = Mend{Do: "limit", Action: a.Action}
	}
	return m
}

// heldUp says what holds tasks of an action up, as far as counts tell.
func heldUp(a *stint.ActionStats) string {
	text := ""
	if IsFull(a) {
		text = "; its limit is full"
	}
	if a.Parked > 0 {
		text += "; " + display.Number(a.Parked) + " parked by limits, pauses or turns of their keys"
	}
	return text
}

// slowOf says of an action how many tasks are in progress, if one has been for so long.
func slowOf(
	slow []stint.TaskInfo, a *stint.ActionStats, least time.Duration, now time.Time,
) []any {
	for i := range slow {
		task := &slow[i]
		age := now.Sub(task.OwnedAt)
		if task.Action != a.Action || task.OwnedAt.IsZero() || age < least {
			continue
		}
		said := "1 is in progress, for "
		if a.InProgress > 1 {
			said = display.Number(a.InProgress) + " are in progress, one for "
		}
		return []any{"; ", show.Part{Text: said + display.Span(age), Link: show.Link("tasks",
			"action", a.Action, "state", string(stint.StateInProgress))}}
	}
	return nil
}

// IsFull reports whether the limit of an action is full.
func IsFull(a *stint.ActionStats) bool {
	return a.Concurrency > 0 && a.InProgress >= int64(a.Concurrency)
}

// WorstFirst puts notices first that call for action, and keeps the order of the others.
func WorstFirst(all []Notice) []Notice {
	slices.SortStableFunc(all, func(a, b Notice) int {
		switch {
		case a.Bad == b.Bad:
			return 0
		case a.Bad:
			return -1
		}
		return 1
	})
	return all
}

// morePaused is the kind of notices of paused actions that are not named.
const morePaused = "actions are paused"

// atMost names some notices, and says how many more there are, if it is more than one.
func atMost(all []Notice, kind, where string) []Notice {
	if len(all) <= Most+1 {
		return all
	}
	return append(all[:Most:Most], Notice{
		What: show.Say(fmt.Sprintf("%d more %s.", len(all)-Most, kind)), Where: where,
		Key: "more " + kind, Bad: all[Most].Bad,
	})
}

// OfHidden are the actions whose failures no group of errors counts.
func OfHidden(hidden []ask.HiddenAction) (all []Notice) {
	for _, one := range hidden {
		verb, were := " are", "they were"
		if one.Aborted == 1 {
			verb, were = " is", "it was"
		}
		all = append(all, Notice{
			Bad: true, Where: one.Link, Key: "hidden " + one.Action,
			What: show.Say(show.Action(one.Action), ": "+display.Count(one.Aborted, "task")+verb+
				" aborted, of which no group of errors tells: too many others failed, nobody said "+
				"why, or "+were+" cancelled."),
		})
	}
	return atMost(all, "actions have aborted tasks of which no group tells", "actions")
}

// OfErrors are the largest groups of errors.
func OfErrors(found *ask.Troubles) []Notice {
	const most = 3
	var all []Notice
	for i, group := range found.Errors {
		if i == most && len(found.Errors) > most+1 {
			all = append(all, Notice{
				Bad: true, Where: "problems", Key: "errors",
				What: show.Say(fmt.Sprintf("%d more kinds of errors.", len(found.Errors)-most)),
			})
			break
		}
		said := ""
		if group.Error != "" {
			said = ": “" + display.Text(show.FirstWords(group.Error)) + "”"
		}
		verb := " were"
		if group.Tasks == 1 {
			verb = " was"
		}
		number := show.Part{
			Text: display.Count(int64(group.Tasks), "task"),
			Link: show.Link("alike", "action", group.Action, "error", group.Error),
		}
		all = append(all, Notice{
			Bad: true, Where: show.Link("task", "id", string(group.Example)),
			Key: "error " + group.Action + " " + group.Error,
			What: show.Say(show.Action(group.Action), ": ", number,
				" failed or"+verb+" given back"+lastTries(found, &group)+said),
		})
	}
	return all
}

// lastTries says how many tasks of a group of errors have one try left.
func lastTries(found *ask.Troubles, group *stint.ErrorGroup) string {
	alike := found.Alike[ask.GroupOf(group.Action, group.Error)]
	last := ask.OnLastTry(alike)
	number, verb := display.Number(int64(len(last))), "have"
	switch {
	case len(last) == 0:
		return ""
	case len(alike) >= ask.ProblemsMax:
		number = "at least " + number
	case len(last) == 1:
		verb = "has"
	}
	return ", " + number + " of which " + verb + " one try left"
}

// OnShard are notices of a shard, for the pages of all: they say which it is, and lead to its own
// pages, which mend what they tell of.
func OnShard(shard string, all []Notice) []Notice {
	folder := ask.ShardFolder(shard)
	for i := range all {
		n := &all[i]
		said := show.Say(display.Text(shard) + ": ")
		for _, part := range n.What {
			if part.Link != "" {
				part.Link = folder + part.Link
			}
			said = append(said, part)
		}
		n.What, n.Key, n.Of, n.Mend = said, shard+" "+n.Key, "", Mend{}
		if n.Where != "" {
			n.Where = folder + n.Where
		}
	}
	return all
}
