package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// ErrUndecided reports that an insert over several shards may or may not take place: the shard that
// decides cannot be asked, or an insert that has the same IDs is not decided. It is all or nothing
// all the same. When the shard can be reached again, [Cluster.GetTasks] tells; a call with IDs of
// the caller's may be repeated after [Options.DecideWithin].
var ErrUndecided = errors.New("it is not known yet whether the tasks were inserted")

// ErrTooLate reports that an insert over several shards took longer than [Options.DecideWithin],
// and was undone.
var ErrTooLate = errors.New("the insert took too long, and was undone")

// InsertTasks inserts tasks on their shards, all or none, also if this process dies at any moment.
// A task may wait for tasks of any shard, inserted with it or before.
//
// Tasks for a single shard are inserted as [stint.Store.InsertTasks] does. In an insert over
// several shards, each part but the largest is inserted behind a gate, a task that it waits for.
// The insert of the largest part decides: then the gates open. If it fails, or never takes place,
// the parts behind the gates are deleted, by this call or by a relay ([Cluster.Run]), and with them
// tasks that others have made to wait for nothing else: wait for an insert before you refer to it.
//
// The error is that of the store, in a [*ShardError]; [ErrUnknownShard]; a [*stint.CycleError]
// whose path has the IDs as [ID.String] writes them; [ErrTooLate]; or [ErrUndecided]. After any but
// the last, nothing was inserted, except that all tasks of one shard may be if ctx ended or the
// connection broke. If the shard that decides cannot be reached, or ctx ends, the call tries for
// some seconds more to find out. A repetition of a call with IDs of the caller's fails with
// [stint.ErrTaskExists] if the first one took place, and with [ErrUndecided] as long as that is
// open.
func (c *Cluster) InsertTasks(ctx context.Context, tasks []Task) error {
	p, err := newPlan(c.topology, tasks)
	if err == nil {
		err = c.insert(ctx, p)
	}
	if err != nil {
		return said("insert tasks", err)
	}
	return nil
}

func (c *Cluster) insert(ctx context.Context, p *plan) error {
	switch len(p.parts) {
	case 0:
		return nil
	case 1:
		of := p.parts[p.decides]
		return of.placed(c.insertInto(ctx, of.shard, of.tasks))
	}
	decide, err := p.deciding()
	if err != nil {
		return err
	}
	for shard := range p.parts {
		if err := c.claim(ctx, shard); err != nil {
			return err
		}
	}
	if err := c.insertGated(ctx, p); err != nil {
		c.undo(ctx, p)
		return err
	}
	err = c.decideFor(ctx, p, decide)
	switch {
	case err == nil:
		c.openGates(ctx, p)
	case !errors.Is(err, ErrUndecided):
		c.undo(ctx, p)
	}
	return err
}

// insertBehind inserts a part behind its gate. If IDs are taken by tasks behind another gate, that
// may be an earlier call with the same tasks, which may still be undone: nobody must be told that
// it took place.
func (c *Cluster) insertBehind(ctx context.Context, shard string, tasks []stint.Task) error {
	err := c.insertInto(ctx, shard, tasks)
	var taken *stint.TaskError
	if !errors.Is(err, stint.ErrTaskExists) || !errors.As(err, &taken) || len(taken.IDs) == 0 {
		return err
	}
	undecided := false
	failed := c.ask(ctx, shard, func(ctx context.Context, store Store) (err error) {
		undecided, err = c.isUndecided(ctx, store, taken.IDs[0])
		return err
	})
	if failed != nil {
		return failed
	}
	if undecided { // the error must not be ErrTaskExists, too
		return fmt.Errorf("%w: another insert has their IDs, and is not decided; repeat the call "+
			"later: %v", ErrUndecided, err)
	}
	return err
}

// insertGated inserts the parts that do not decide, all at once.
func (c *Cluster) insertGated(ctx context.Context, p *plan) error {
	errs := make(chan error, len(p.parts))
	inserting := 0
	for shard, of := range p.parts {
		if shard == p.decides {
			continue
		}
		tasks, err := p.gated(of)
		if err != nil {
			return err
		}
		inserting++
		go func() { errs <- of.placed(c.insertBehind(ctx, shard, tasks)) }()
	}
	var all []error
	for range inserting {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// decideFor inserts the part that decides.
func (c *Cluster) decideFor(ctx context.Context, p *plan, tasks []stint.Task) error {
	store, err := c.Store(ctx, p.decides)
	if err != nil {
		return err
	}
	failed := p.parts[p.decides].placed(c.insertInto(ctx, p.decides, tasks))
	switch {
	case failed == nil, changedNothing(failed):
		return failed
	}
	// If a decision has its ID, none of the tasks may be taken, and the error must not say so.
	taken := errors.Is(failed, stint.ErrTaskExists)
	text := failed.Error()
	// The insert took place, or was decided against, or is still on its way: only another decision
	// can keep it from taking place.
	settle, cancel := settling(ctx)
	defer cancel()
	for {
		against, err := decideAgainst(settle, store, p.decision())
		switch {
		case err == nil && against && taken:
			return fmt.Errorf("%w: %s", ErrTooLate, text)
		case err == nil && against:
			return failed
		case err == nil:
			return nil
		case taken && settle.Err() != nil:
			return fmt.Errorf("%w: %s", ErrUndecided, text)
		case settle.Err() != nil || errors.Is(err, stint.ErrClosed):
			return fmt.Errorf("%w: %w", ErrUndecided, failed)
		}
		select {
		case <-time.After(settleFor / 20): //nolint:mnd // a few times
		case <-settle.Done():
		}
	}
}

// changedNothing reports that an insert that failed with this error has changed nothing, and that
// it did not find a decision either.
func changedNothing(err error) bool {
	var tasks *stint.TaskError
	if errors.Is(err, stint.ErrTaskExists) && errors.As(err, &tasks) {
		return !slices.ContainsFunc(tasks.IDs, isDecision)
	}
	for _, definite := range []error{
		stint.ErrTaskNotFound, stint.ErrTaskStarted, stint.ErrCycle, stint.ErrInvalidArgument,
		stint.ErrRefused, stint.ErrSchemaVersion,
	} {
		if errors.Is(err, definite) {
			return true
		}
	}
	return false
}

func isDecision(id stint.TaskID) bool { return strings.HasPrefix(string(id), decisionPrefix) }

// undo deletes the parts that were inserted behind gates. What it cannot delete, relays do.
func (c *Cluster) undo(ctx context.Context, p *plan) {
	ctx, cancel := settling(ctx)
	defer cancel()
	c.eachGated(p, func(shard string) error {
		store, err := c.Store(ctx, shard)
		if err != nil {
			return err
		}
		ids := make([]stint.TaskID, len(p.parts[shard].tasks))
		for i, task := range p.parts[shard].tasks {
			ids[i] = task.ID
		}
		return c.undoPart(ctx, shard, store, p.gate(), ids)
	})
}

// openGates opens the gates of an insert that was decided. What it cannot open, relays do.
func (c *Cluster) openGates(ctx context.Context, p *plan) {
	ctx, cancel := settling(ctx)
	defer cancel()
	c.eachGated(p, func(shard string) error { return c.openGate(ctx, shard, p.gate()) })
}

// eachGated does the same on all shards with a gate, at once. Relays do what fails.
func (c *Cluster) eachGated(p *plan, do func(shard string) error) {
	var all sync.WaitGroup
	for shard := range p.parts {
		if shard != p.decides {
			all.Go(func() { _ = do(shard) })
		}
	}
	all.Wait()
}
