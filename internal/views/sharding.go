// Package views has what programs show of shards and of checks, without the packages that find it:
// it needs no more than the store does.
package views

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
)

// The errors of shards, as package shards documents them.
var (
	ErrUnknown  = errors.New("no such shard")
	ErrWrong    = errors.New("the topology leads to another shard")
	ErrNoAnswer = errors.New("no answer")
)

// NameBytesMax is how long the name of a shard may be.
const NameBytesMax = 63

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// IsName reports whether a text may be the name of a shard.
func IsName(text string) bool {
	return len(text) <= NameBytesMax && namePattern.MatchString(text)
}

// PlaceholderPrefix begins the ID of a task that stands for one of another shard. That one's name
// in the cluster follows, and, behind a slash, the insert that the placeholder is of.
const PlaceholderPrefix = "stint.remote/"

// StandsFor returns the shard and the ID of the task of another shard that a task stands for; false
// if it is no placeholder.
func StandsFor(placeholder stint.TaskID) (shard string, task stint.TaskID, ok bool) {
	rest, ok := strings.CutPrefix(string(placeholder), PlaceholderPrefix)
	end := strings.LastIndexByte(rest, '/')
	if !ok || end < 0 {
		return "", "", false
	}
	shard, id, ok := strings.Cut(rest[:end], "/")
	return shard, stint.TaskID(id), ok && id != "" && IsName(shard)
}

// Stats is how many tasks there are on a shard.
type Stats struct {
	Shard string
	stint.Stats

	// Err is why the shard does not say. The counts are zero then.
	Err error
}

// Sum adds up the counts of shards. An action is limited or paused if it is on one of them.
func Sum(found []Stats) stint.Stats {
	var all stint.Stats
	byName := map[string]int{}
	for i := range found {
		for k := range found[i].Actions {
			a := &found[i].Actions[k]
			at, ok := byName[a.Action]
			if !ok {
				byName[a.Action] = len(all.Actions)
				all.Actions = append(all.Actions, *a)
				continue
			}
			add(&all.Actions[at], a)
		}
		for _, state := range found[i].Estimated {
			if !slices.Contains(all.Estimated, state) {
				all.Estimated = append(all.Estimated, state)
			}
		}
		if at := found[i].EstimatedAt; all.EstimatedAt.IsZero() ||
			!at.IsZero() && at.Before(all.EstimatedAt) {
			all.EstimatedAt = at // of the oldest
		}
		all.Copy = cmp.Or(all.Copy, found[i].Copy)
		all.PruningBehind = max(all.PruningBehind, found[i].PruningBehind)
	}
	slices.SortStableFunc(all.Actions, func(a, b stint.ActionStats) int {
		return cmp.Compare(a.Action, b.Action)
	})
	return all
}

// add adds what another shard has of an action.
func add(sum, a *stint.ActionStats) {
	sum.Blocked += a.Blocked
	sum.Scheduled += a.Scheduled
	sum.Ready += a.Ready
	sum.InProgress += a.InProgress
	sum.Completed += a.Completed
	sum.Aborted += a.Aborted
	sum.Skipped += a.Skipped
	sum.OldestReady = max(sum.OldestReady, a.OldestReady)
	sum.Tries += a.Tries
	sum.Retries += a.Retries
	sum.Parked += a.Parked
	sum.Lost += a.Lost
	sum.Limited = sum.Limited || a.Limited
	sum.Concurrency += a.Concurrency
	sum.Paused = sum.Paused || a.Paused
}
