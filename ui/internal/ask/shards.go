package ask

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// A Sharder is a store of several shards, which has the tasks of all of them: Merged of package
// shards.
type Sharder interface {
	ShardStats(ctx context.Context) ([]views.Stats, error)
	ShardStore(ctx context.Context, shard string) (any, error)
	Missing(since time.Time) (shards []string)
	AsSeen(states []stint.State, seen []stint.TaskInfo, dryRun bool) verbs.Changer
}

func shardsOf(store verbs.Reader, timeout time.Duration) *kept.Answer[[]views.Stats] {
	sharded, ok := store.(Sharder)
	if !ok {
		return nil
	}
	return &kept.Answer[[]views.Stats]{Ask: sharded.ShardStats, Timeout: timeout}
}

// MissingOf says what a store does not tell of at the moment.
func MissingOf(store verbs.Reader) func() []string {
	sharded, ok := store.(Sharder)
	if !ok {
		return func() []string { return nil }
	}
	return func() (said []string) {
		const shown = 15 * time.Second // for which answers may be shown
		for _, shard := range sharded.Missing(kept.Now().Add(-shown)) {
			said = append(said, "Shard "+display.Text(shard)+
				" is away: its tasks are missing.")
		}
		return said
	}
}

// ShardsFolder is the folder with the folders of shards.
const ShardsFolder = "shard"

// ShardFolder is the folder with the pages of a shard.
func ShardFolder(shard string) string { return ShardsFolder + "/" + url.PathEscape(shard) + "/" }

// ShardOf is the shard of a task; empty if the store has none.
func (a *Store) ShardOf(id stint.TaskID) string {
	if _, ok := a.Reader.(Sharder); !ok {
		return ""
	}
	shard, _, _ := strings.Cut(string(id), "/")
	return shard
}

// OnShard is the address of the page of a task on its shard, and the shard; empty if the store has
// none.
func (a *Store) OnShard(id stint.TaskID) (shard, address string) {
	if shard = a.ShardOf(id); shard == "" {
		return "", ""
	}
	task := strings.TrimPrefix(string(id), shard+"/")
	return shard, ShardFolder(shard) + show.Link("task", "id", task)
}

// ShardsWith are the pages of an action on the shards that have it, and on those where it is
// paused.
func (a *Store) ShardsWith(ctx context.Context, action string) (on, pausedOn []show.Part) {
	if a.ShardCounts == nil {
		return nil, nil
	}
	found, err := a.ShardCounts.Get(ctx)
	if err != nil {
		return nil, nil
	}
	for i := range found {
		there := show.Part{
			Text: display.Text(found[i].Shard),
			Link: ShardFolder(found[i].Shard) + show.Link("action", "name", action),
		}
		for k := range found[i].Actions {
			if s := &found[i].Actions[k]; s.Action == action {
				on = append(on, there)
				if s.Paused {
					pausedOn = append(pausedOn, there)
				}
			}
		}
	}
	return on, pausedOn
}

// LeavingOut makes a change without the tasks because of which it is refused. Each shard makes its
// part of it for itself: if one does not answer, the tasks on it are left out.
func (a *Store) LeavingOut(
	ctx context.Context, tasks []bulk.Task,
	change func(ctx context.Context, tasks []bulk.Task) (stint.Affected, error),
) (affected stint.Affected, refused []bulk.Refusal, err error) {
	parts := a.byShard(tasks)
	if len(parts) <= 1 {
		return bulk.LeavingOut(ctx, a, tasks, change)
	}
	// At once, since it may depend on what another shard does.
	affected, err = change(ctx, tasks)
	if err == nil {
		return affected, nil, nil
	}
	done := map[stint.TaskID]bool{}
	for _, id := range affected.Tasks {
		done[id] = true
	}
	errs := []error{err}
	for _, tasks := range parts {
		tasks = slices.DeleteFunc(tasks, func(task bulk.Task) bool { return done[task.ID] })
		part, left, err := bulk.LeavingOut(ctx, a, tasks, change)
		refused = append(refused, left...)
		if err != nil {
			errs = append(errs, err)
			refused = append(refused, bulk.Refusal{Tasks: bulk.IDs(tasks), Err: &SilentError{err}})
			continue
		}
		affected.Tasks = append(affected.Tasks, part.Tasks...)
		affected.Others += part.Others
		affected.InProgress += part.InProgress
	}
	if len(errs) > len(parts) || len(done) == len(tasks) { // no part says what kept it
		return affected, refused, errors.Join(errs...)
	}
	return affected, refused, nil
}

// byShard returns the tasks of each shard, all together if the store has none.
func (a *Store) byShard(tasks []bulk.Task) (parts [][]bulk.Task) {
	at := map[string]int{}
	for _, task := range tasks {
		shard := a.ShardOf(task.ID)
		i, ok := at[shard]
		if !ok {
			i, parts = len(parts), append(parts, nil)
			at[shard] = i
		}
		parts[i] = append(parts[i], task)
	}
	return parts
}

// A SilentError is why a shard did not say what became of its part of a change.
type SilentError struct{ err error }

func (e *SilentError) Error() string { return e.err.Error() }

// Unwrap returns that error.
func (e *SilentError) Unwrap() error { return e.err }
