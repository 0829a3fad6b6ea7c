package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A shardRow is a shard in the list.
type shardRow struct {
	Name   string
	Link   string // of its own pages
	Tasks  string // of its tasks
	Away   bool
	Why    string // it does not answer
	States []show.Tally
	All    int64
	Oldest time.Duration
	Paused int // actions
}

type shardsData struct {
	Shards []shardRow
	Away   int
}

// shardsPage lists shards.
func shardsPage(h *Handler, r *request) (view, error) {
	found, err := h.asked.ShardCounts.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	var data shardsData
	for i := range found {
		row := newShardRow(&found[i])
		if row.Away {
			data.Away++
		}
		data.Shards = append(data.Shards, row)
	}
	return view{name: "shards", data: data}, nil
}

func newShardRow(s *views.Stats) shardRow {
	row := shardRow{
		Name: s.Shard, Link: ask.ShardFolder(s.Shard),
		Tasks: show.Link("tasks", "prefix", s.Shard+"/"),
	}
	if s.Err != nil {
		row.Away, row.Why = true, whyAway(s.Err)
		return row
	}
	row.States = show.Tallies(s.Stats)
	for i := range row.States {
		state := &row.States[i]
		row.All += state.Tasks
		state.Link = show.Link("tasks", "state", string(state.State), "prefix", s.Shard+"/")
	}
	for i := range s.Actions {
		row.Oldest = max(row.Oldest, s.Actions[i].OldestReady)
		if s.Actions[i].Paused {
			row.Paused++
		}
	}
	return row
}

// whyAway says why a shard does not answer, without what only its log should say, such as where its
// database is.
func whyAway(err error) string {
	switch {
	case errors.Is(err, views.ErrWrong):
		return "its database is that of another shard"
	case errors.Is(err, stint.ErrRefused):
		return "it lets these pages see nothing"
	case errors.Is(err, views.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "it cannot be reached"
}

// changeOn is how tasks of a shard are changed: with what that means on other shards.
func (h *Handler) changeOn(shard string) bulk.SeenChange {
	if h.asked.Change == nil {
		return nil
	}
	prefix := stint.TaskID(shard + "/")
	return func(
		ctx context.Context, states []stint.State, tasks []bulk.Task, dryRun bool,
		change bulk.Change,
	) (stint.Affected, error) {
		tasks = slices.Clone(tasks)
		for i := range tasks {
			tasks[i].ID = prefix + tasks[i].ID
		}
		affected, err := h.asked.Change(ctx, states, tasks, dryRun, change)
		affected.Tasks = withoutPrefix(affected.Tasks, prefix)
		var named *stint.TaskError
		if errors.As(err, &named) {
			err = &stint.TaskError{IDs: withoutPrefix(named.IDs, prefix), Err: named.Err}
		}
		return affected, err
	}
}

func withoutPrefix(ids []stint.TaskID, prefix stint.TaskID) []stint.TaskID {
	ids = slices.Clone(ids)
	for i := range ids {
		ids[i] = stint.TaskID(strings.TrimPrefix(string(ids[i]), string(prefix)))
	}
	return ids
}

// answersFrom says who answers tasks that nobody is given.
func (h *Handler) answersFrom() string {
	if h.ofShards() { // on each, others stand for the tasks of other shards
		return "from outside, or from other shards"
	}
	return "from outside"
}
