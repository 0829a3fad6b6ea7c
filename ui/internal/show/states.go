// Package show writes values as the pages show them: texts, times, counts of tasks, bodies, and
// sentences with links.
package show

import (
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/charts"
)

// States are all of them, in the order of a task's life.
func States() []stint.State {
	return []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted, stint.StateSkipped,
	}
}

// StateName is a state in words.
func StateName(state stint.State) string {
	if state == stint.StateInProgress {
		return "in progress"
	}
	return string(state)
}

// IsFinal reports whether a task in a state has ended.
func IsFinal(state stint.State) bool {
	return state == stint.StateCompleted || state == stint.StateAborted ||
		state == stint.StateSkipped
}

// A Tally is how many tasks there are in a state.
type Tally struct {
	State     stint.State
	Tasks     int64
	Estimated bool
	At        time.Time // when it was estimated, if that is known
	Link      string
}

// Estimate says of an estimate of which moment it is.
func (t Tally) Estimate() string {
	if t.At.IsZero() {
		return "an estimate"
	}
	return "an estimate of " + stamp(t.At)
}

// Tallies are the counts of all tasks by state.
func Tallies(stats stint.Stats) []Tally {
	var all []Tally
	for _, state := range States() {
		all = append(all, Tally{
			State: state, Estimated: slices.Contains(stats.Estimated, state),
			At:   stats.EstimatedAt,
			Link: Link("tasks", "state", string(state)),
		})
	}
	for i := range stats.Actions {
		at := 0
		for _, tasks := range stats.Actions[i].ByState() {
			all[at].Tasks += tasks
			at++
		}
	}
	return all
}

// CountStates counts tasks by state.
func CountStates(tasks []stint.TaskInfo) []Tally {
	counts := map[stint.State]int64{}
	for i := range tasks {
		counts[tasks[i].State]++
	}
	var all []Tally
	for _, state := range States() {
		all = append(all, Tally{State: state, Tasks: counts[state]})
	}
	return all
}

// Shares are the parts of a bar of tallies.
func Shares(tallies []Tally, all int64) []charts.Segment {
	return charts.Shares(func(yield func(stint.State, int64) bool) {
		for i := range tallies {
			if !yield(tallies[i].State, tallies[i].Tasks) {
				return
			}
		}
	}, all)
}
