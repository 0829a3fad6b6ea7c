package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/verbs"
)

// A change is what a sub-command does to the tasks whose IDs it is given, or that pass its filters.
type change struct {
	verb, done string // such as abort, aborted
	// unchanged says why tasks have stayed as they are; empty if none that is named can.
	unchanged string
	// interrupts says that it may change tasks in progress.
	interrupts bool
	// separate says that tasks are changed each for itself, whatever depends on them. Those that
	// pass the filters may be so already.
	separate bool
	// states are those that a filter looks at without --state, also others that it may name.
	states, also []stint.State
	// skip leaves out a task that passes the filters.
	skip func(task *stint.TaskInfo, now time.Time) bool
	do   bulk.Change

	filter   filterFlags
	yes      bool
	batchMax int
	// dryRun says that it is only to say what it would do.
	dryRun bool
}

// errPartly says that a change by filters has stopped on the way.
var errPartly = errors.New("stopped")

// batchTasksMax is how many tasks that a filter has found are changed in one transaction, unless
// more of them hang together.
const batchTasksMax = 10_000

// find returns the tasks that pass the filters, each once, and how many it has skipped because they
// were aborted because of others. All are found before any is changed.
func (c *change) find(
	ctx context.Context, db *database, filter stint.Filter,
) (tasks []bulk.Task, skipped int, err error) {
	now, err := db.now(ctx)
	if err != nil {
		return nil, 0, err
	}
	found, err := bulk.Find(ctx, db.store, filter, 0, func(task *stint.TaskInfo) bool {
		skip := c.skip != nil && c.skip(task, now)
		if skip && task.AbortCause == stint.CauseDependency {
			skipped++
		}
		return skip
	}, nil)
	return found.Tasks, skipped, err
}

// An outcome is what came of a change by filters.
type outcome struct {
	stint.Affected

	// unchanged are the tasks that were still as they had been seen, and that the change has left
	// so: they are so already.
	unchanged []stint.TaskID
	// refusal says why tasks were left out.
	refusal error
}

// left is how many of the tasks found were refused, or were no longer as they had been seen.
func (o *outcome) left(found int) int { return found - len(o.Tasks) - len(o.unchanged) }

// inBatches changes tasks batch by batch, and tells between two how many it has changed. The tasks
// because of which a batch is refused are left out of it.
func (c *change) inBatches(
	ctx context.Context, db *database, filter stint.Filter, tasks []bulk.Task, tell func(done int),
) (all outcome, err error) {
	batches, err := c.cut(ctx, db, tasks)
	if err != nil {
		return all, err
	}
	for i, batch := range batches {
		if i > 0 {
			tell(len(all.Tasks))
		}
		affected, refused, err := bulk.LeavingOut(ctx, db.store, batch,
			func(ctx context.Context, batch []bulk.Task) (stint.Affected, error) {
				affected, same, err := c.changeBatch(ctx, db, filter, batch)
				if err == nil && c.separate {
					all.unchanged = append(all.unchanged, without(same, affected.Tasks)...)
				}
				return affected, err
			})
		if err != nil {
			return all, err
		}
		if len(refused) > 0 {
			all.refusal = refused[len(refused)-1].Err
		}
		all.Tasks = append(all.Tasks, affected.Tasks...)
		all.Others += affected.Others
		all.InProgress += affected.InProgress
		all.Started += affected.Started
		all.Skipped += affected.Skipped
		all.Later += affected.Later
	}
	if db.client != nil && len(all.unchanged) > 0 { // it has not told which were as seen
		slices.Sort(all.unchanged)
		all.unchanged, err = db.stillFound(ctx, filter, tasks, all.unchanged)
	}
	return all, err
}

// without returns the IDs, or names, that are not among others.
func without[ID ~string](ids, others []ID) []ID {
	others = slices.Sorted(slices.Values(others))
	return slices.DeleteFunc(slices.Clone(ids), func(id ID) bool {
		_, found := slices.BinarySearch(others, id)
		return found
	})
}

// stillFound returns those of the IDs whose tasks pass the filter, and are as they were found.
func (db *database) stillFound(
	ctx context.Context, filter stint.Filter, found []bulk.Task, ids []stint.TaskID,
) ([]stint.TaskID, error) {
	were := make(map[stint.TaskID]bulk.Task, len(ids))
	for _, task := range found {
		if _, ok := slices.BinarySearch(ids, task.ID); ok {
			were[task.ID] = task
		}
	}
	filter.MinAge, filter.MaxAge = 0, 0 // they have grown older
	now, err := bulk.Find(ctx, db.store, filter, 0, func(task *stint.TaskInfo) bool {
		was, ok := were[task.ID]
		return !ok || !task.InsertedAt.Equal(was.Inserted) || !task.FinishedAt.Equal(was.Finished)
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("see which tasks were so already: %w", err)
	}
	return bulk.IDs(now.Tasks), nil
}

// cut cuts the tasks of a change into batches, each of which is one transaction. What a change does
// to a task depends on which others are changed with it, and a change reaches other tasks along
// dependencies. So tasks that can be reached from one another, or that reach the same task, are in
// one batch, however many they are. A service does not tell what hangs together: it is sent all in
// one request.
func (c *change) cut(
	ctx context.Context, db *database, tasks []bulk.Task,
) (batches [][]bulk.Task, err error) {
	switch {
	case c.separate:
		return slices.Collect(slices.Chunk(tasks, c.batchMax)), nil
	case db.client != nil:
		return [][]bulk.Task{tasks}, db.checkRequest(ctx, c, tasks)
	case len(tasks) <= c.batchMax:
		return [][]bulk.Task{tasks}, nil
	}
	networks, err := db.networks(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var batch []bulk.Task
	for _, network := range networks {
		if len(batch) > 0 && len(batch)+len(network) > c.batchMax {
			batches, batch = append(batches, batch), nil
		}
		batch = append(batch, network...)
	}
	return append(batches, batch), nil
}

// checkRequest refuses a change that is too large for one request to the service.
func (db *database) checkRequest(ctx context.Context, c *change, tasks []bulk.Task) error {
	info, err := db.client.ServiceInfo(ctx)
	if err != nil || info.RequestBytesMax == 0 {
		return err
	}
	const (
		names      = 2  // the ID comes in the list of the verb, and with what was seen of the task
		bytesOther = 48 // at most, for what else was seen
	)
	bytes := int64(0)
	for i := range tasks {
		bytes += names*int64(len(tasks[i].ID)) + bytesOther
	}
	if bytes <= info.RequestBytesMax {
		return nil
	}
	return said(errInput, "the filters choose %s, more than one request to the service can name: "+
		"%s fewer at a time, with narrower filters, or give --database-url",
		display.Count(int64(len(tasks)), "task"), c.verb)
}

// changeBatch changes those tasks that still are as they were when they passed the filters: the
// user may have taken a while to answer. It returns also which these are; of a service all, since
// it does not tell.
func (c *change) changeBatch(
	ctx context.Context, db *database, filter stint.Filter, batch []bulk.Task,
) (affected stint.Affected, still []stint.TaskID, err error) {
	do := func(
		by verbs.Changer, ctx context.Context, ids []stint.TaskID,
	) (stint.Affected, error) {
		still = ids
		return c.do(by, ctx, ids)
	}
	if db.client != nil {
		seen := db.client.AsSeen(filter.States, bulk.Infos(batch), c.dryRun)
		affected, err = do(seen, ctx, bulk.IDs(batch))
		return affected, still, err
	}
	if c.dryRun {
		dry := db.direct.DryRun()
		affected, err = bulk.Unchanged(ctx, db.direct, dry, filter.States, batch, do)
		return affected, still, err
	}
	tx, err := db.pool.BeginTx(ctx, pgx.TxOptions{
		IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite,
	})
	if err != nil {
		return affected, nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	store := db.direct.WithTx(tx)
	if affected, err = bulk.Unchanged(ctx, store, store, filter.States, batch, do); err != nil {
		return affected, nil, err
	}
	// An interruption does not cut a commit off, so that the report tells all that has changed.
	const commitMax = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitMax)
	defer cancel()
	return affected, still, tx.Commit(ctx)
}
