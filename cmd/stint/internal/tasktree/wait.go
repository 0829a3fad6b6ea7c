package tasktree

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

const (
	// pollEvery is how often progress is asked for.
	pollEvery = 250 * time.Millisecond
	// pageMax is how many tasks one poll returns.
	pageMax = 10_000
)

// A Source shows tasks: a store, or a client of a service.
type Source interface {
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
	WaitForTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
}

// Wait waits until all tasks of a plan, which must have been inserted, have finished, and returns
// what the store then knows of each, by its name. It is no error if some were aborted. The errors
// are those of [stint.Store.WaitForTasks].
//
// Meanwhile progress, unless it is nil, is called with what the store knows of the tasks, in the
// order of the plan: a few times a second if something has changed, and once at the end. Bodies and
// results may be missing. While the database cannot be reached, there is no news.
func (p *Plan) Wait(
	ctx context.Context, store Source, progress func(tasks []stint.TaskInfo),
) (map[string]stint.TaskInfo, error) {
	infos, err := p.wait(ctx, store, progress)
	if err != nil {
		return nil, fmt.Errorf("wait for tree: %w", err)
	}
	byName := make(map[string]stint.TaskInfo, len(infos))
	for i, info := range infos {
		byName[p.Names[i]] = info
	}
	return byName, nil
}

func (p *Plan) wait(
	ctx context.Context, store Source, progress func(tasks []stint.TaskInfo),
) ([]stint.TaskInfo, error) {
	ids := make([]stint.TaskID, len(p.Tasks))
	for i, task := range p.Tasks {
		ids[i] = task.ID
	}
	if progress == nil {
		return store.WaitForTasks(ctx, ids)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var infos []stint.TaskInfo
	var err error
	finished := make(chan struct{})
	go func() {
		infos, err = store.WaitForTasks(ctx, ids)
		close(finished)
	}()
	var last []stint.TaskInfo
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		// A poll that fails says nothing; the other call decides whether to wait on.
		if now, err := p.poll(ctx, store); err == nil && changed(last, now) {
			last = now
			progress(now)
		}
		select {
		case <-finished:
			if err == nil {
				progress(infos)
			}
			return infos, err
		case <-tick.C:
		}
	}
}

// poll returns what the store knows of the tasks, without bodies and results. For a task that it
// does not know, there is only the ID.
func (p *Plan) poll(ctx context.Context, store Source) ([]stint.TaskInfo, error) {
	infos := make([]stint.TaskInfo, len(p.Tasks))
	places := make(map[stint.TaskID]int, len(p.Tasks))
	for i, task := range p.Tasks {
		infos[i].ID, places[task.ID] = task.ID, i
	}
	filter := stint.Filter{IDPrefix: p.prefix, Limit: pageMax}
	for {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Tasks {
			if place, ok := places[info.ID]; ok {
				infos[place] = info
			}
		}
		if page.Next == "" {
			return infos, nil
		}
		filter.After = page.Next
	}
}

// changed reports whether there is something in now that people want to know.
func changed(last, now []stint.TaskInfo) bool {
	if len(last) != len(now) {
		return true
	}
	for i, info := range now {
		before := last[i]
		if info.State != before.State || info.Tries != before.Tries ||
			info.Progress != before.Progress || info.Status != before.Status {
			return true
		}
	}
	return false
}
