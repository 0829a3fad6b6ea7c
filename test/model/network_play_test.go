package model_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
)

// someone is a task of the plan, whatever has become of it.
func (p *player) someone() stint.TaskID { return plannedID(p.random.IntN(len(p.tasks))) }

// look sees which tasks have yet to end.
func (p *player) look(ctx context.Context) {
	infos, err := listTasks(ctx, p.store, stint.Filter{Limit: 1000, States: []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
	}})
	p.record("ListTasks", err, false)
	p.seen = p.seen[:0]
	for _, info := range infos {
		p.seen = append(p.seen, info.ID)
	}
}

// active is mostly a task that had yet to end at the last look.
func (p *player) active() stint.TaskID {
	if len(p.seen) == 0 || p.one(20) {
		return p.someone()
	}
	return p.seen[p.random.IntN(len(p.seen))]
}

// tie adds dependencies between stored tasks, also such that would close a cycle.
func (p *player) tie(ctx context.Context) {
	for range 5 + len(p.tasks)/3 {
		p.look(ctx)
		var wanted []stint.Dependency
		for range 1 + p.random.IntN(3) {
			pair := stint.Dependency{Predecessor: p.active(), Dependent: p.active()}
			if pair.Predecessor > pair.Dependent && !p.one(8) {
				pair.Predecessor, pair.Dependent = pair.Dependent, pair.Predecessor
			}
			wanted = append(wanted, pair)
		}
		inTx := p.one(2)
		if !p.within(ctx, inTx, p.one(4), func(store *stint.Store) (err error) {
			if wanted, err = p.add(ctx, store, inTx, wanted); err == nil && inTx && p.one(6) {
				more := []stint.Dependency{{Predecessor: p.active(), Dependent: p.active()}}
				more, err = p.add(ctx, store, inTx, more)
				wanted = append(wanted, more...)
			}
			return err
		}) {
			continue
		}
		for _, pair := range wanted {
			p.accept(pair.Predecessor, pair.Dependent)
		}
	}
}

// add adds dependencies and, if some are refused, the others. It returns what it added. An error
// that is to be expected it hides, since the transaction stays fit for use.
func (p *player) add(
	ctx context.Context, store *stint.Store, inTx bool, wanted []stint.Dependency,
) ([]stint.Dependency, error) {
	for {
		err := store.AddDependencies(ctx, wanted)
		p.record("AddDependencies", err, inTx, stint.ErrTaskNotFound, stint.ErrTaskStarted,
			stint.ErrTaskFinished, stint.ErrCycle)
		var refusal *stint.DependencyError
		switch {
		case err == nil:
			return wanted, nil
		case errors.Is(err, stint.ErrCycle):
			return nil, nil
		case !errors.As(err, &refusal):
			return nil, err
		}
		left := slices.DeleteFunc(slices.Clone(wanted), func(pair stint.Dependency) bool {
			return slices.ContainsFunc(refusal.Refused, func(r stint.RefusedDependency) bool {
				return r.Dependency == pair
			})
		})
		if len(left) == len(wanted) || len(refusal.Unwrap()) == 0 {
			p.fault("AddDependencies(%v) = %v, which names none of them", wanted, err)
			return nil, err
		}
		if wanted = left; len(wanted) == 0 {
			return nil, nil
		}
	}
}

// wait is how tasks are to wait, but never for long.
func (p *player) wait() stint.TaskChanges {
	return []stint.TaskChanges{
		{StartNow: true},
		{StartAfter: time.Duration(1+p.random.IntN(20)) * time.Millisecond},
		{Priority: new(int16(p.random.IntN(3))), MaxTries: stint.UnlimitedTries},
		{Key: new("k"), StartNow: true},
	}[p.random.IntN(4)]
}

// meddle cancels, replaces, deletes and changes tasks.
func (p *player) meddle(ctx context.Context) {
	for range 2 + len(p.tasks)/10 {
		inTx := p.one(4)
		undone := p.one(4)
		p.look(ctx)
		ids := []stint.TaskID{p.active()}
		if p.one(2) {
			ids = append(ids, p.active())
		}
		switch p.random.IntN(5) {
		case 4:
			p.within(ctx, inTx, undone, func(store *stint.Store) error {
				_, err := store.ChangeTasks(ctx, ids, p.wait())
				p.record("ChangeTasks", err, inTx, stint.ErrTaskNotFound, stint.ErrTaskStarted)
				return err
			})
		case 0:
			p.within(ctx, inTx, undone, func(store *stint.Store) error {
				_, err := store.AbortTasks(ctx, ids, "enough")
				p.record("AbortTasks", err, inTx, stint.ErrTaskNotFound)
				return err
			})
		case 1:
			p.delete(ctx, ids, inTx, undone)
		default:
			p.replace(ctx, inTx, undone)
		}
	}
}

func (p *player) delete(ctx context.Context, ids []stint.TaskID, inTx, undone bool) {
	p.mutex.Lock()
	for _, id := range ids {
		p.deleted[id] = true // if it is refused, nobody misses the finer distinction
	}
	p.mutex.Unlock()
	p.within(ctx, inTx, undone, func(store *stint.Store) error {
		_, err := store.DeleteTasks(ctx, ids)
		p.record("DeleteTasks", err, inTx, stint.ErrTaskNotFound, stint.ErrTaskInProgress)
		return err
	})
}

// replace replaces a task by one with other edges. The groups that have yet to come may name it, so
// only tasks of groups that are there are replaced.
func (p *player) replace(ctx context.Context, inTx, undone bool) {
	group := p.random.IntN(len(p.groups))
	if len(p.groups[group]) == 0 {
		return
	}
	select {
	case <-p.done[group]:
	default:
		return
	}
	i := p.groups[group][p.random.IntN(len(p.groups[group]))]
	task := p.tasks[i]
	for range p.random.IntN(3) {
		if other := p.active(); other < task.ID {
			task.After = append(task.After, other)
		} else {
			task.ToSignalAfter = append(task.ToSignalAfter, other)
		}
	}
	done := p.within(ctx, inTx, undone, func(store *stint.Store) error {
		err := store.ReplaceTasks(ctx, []stint.Task{task})
		p.record("ReplaceTasks", err, inTx, stint.ErrTaskNotFound, stint.ErrTaskInProgress,
			stint.ErrTaskStarted, stint.ErrCycle)
		return err
	})
	if done {
		for _, id := range task.After {
			p.accept(id, task.ID)
		}
		for _, id := range task.ToSignalAfter {
			p.accept(task.ID, id)
		}
	}
}

// work owns tasks and returns them, or does not, until nobody else is there and nothing is left.
func (p *player) work(ctx context.Context) {
	for empty := 0; empty < 2; {
		lease := time.Hour
		if p.one(5) {
			lease = time.Millisecond
		}
		most := 1 + p.random.IntN(3)
		if p.one(4) {
			most = 1 + p.random.IntN(20)
		}
		owned, err := p.store.OwnTasks(ctx, "worker", most, []string{"act"}, lease)
		p.record("OwnTasks", err, false)
		if err != nil {
			return
		}
		if p.over.Load() && len(owned) == 0 {
			empty++
		}
		if len(owned) == 0 || !p.over.Load() {
			p.pause(ctx)
		}
		p.listen(ctx, owned)
		if len(owned) == 0 && !p.one(3) || p.one(10) {
			owned = append(owned, p.kept...) // too late, perhaps
			p.kept = nil
		}
		p.giveBack(ctx, owned)
		if p.one(10) || len(p.kept) > 10 {
			select {
			case p.upkeep <- struct{}{}:
			default: // under way already
			}
		}
	}
}

// pause leaves the processor to others for a moment.
func (p *player) pause(ctx context.Context) {
	_, err := p.pool.Exec(ctx, "SELECT pg_sleep($1)", p.random.Float64()/100)
	p.record("pause", err, false)
}

// listen writes down what the owner of tasks is told.
func (p *player) listen(ctx context.Context, owned []stint.OwnedTask) {
	for _, task := range owned {
		what := told{completed: task.Completed, aborted: task.Aborted}
		if p.one(2) {
			inputs, err := p.store.Inputs(ctx, task)
			p.record("Inputs", err, false, stint.ErrInvalidToken)
			what.asked = err == nil
			for _, input := range inputs {
				what.inputs = append(what.inputs, input.ID)
			}
		}
		p.mutex.Lock()
		p.owned[handedOut{task.ID, claimOf(task.ID, task.Token)}] = what
		p.mutex.Unlock()
	}
}

// giveBack returns tasks in one call or in many, and some not at all.
func (p *player) giveBack(ctx context.Context, owned []stint.OwnedTask) {
	var returns []stint.Return
	for _, task := range owned {
		given := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
		switch n := p.random.IntN(100); {
		case n < 8:
			given.Code = stint.StatusAborted
		case n < 16:
			given.Code = stint.StatusPending
		case n < 22:
			given.Code, given.Release = stint.StatusPending, true
		case n < 32:
			p.kept = append(p.kept, task)
			continue
		}
		returns = append(returns, given)
	}
	if len(returns) == 0 {
		return
	}
	if p.one(2) {
		for _, r := range returns {
			err := p.store.ReturnTask(ctx, r.ID, r.Token, "", r.Code) // not a release, then
			p.record("ReturnTask", err, false, stint.ErrInvalidToken)
			p.settled([]stint.Return{r}, []error{err})
		}
		return
	}
	var verdicts []error
	inTx := p.one(8)
	if p.within(ctx, inTx, p.one(3), func(store *stint.Store) (err error) {
		verdicts, err = store.ReturnTasks(ctx, returns)
		p.record("ReturnTasks", err, inTx)
		return err
	}) {
		p.settled(returns, verdicts)
	}
}

// settled writes down which returns were accepted.
func (p *player) settled(returns []stint.Return, verdicts []error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i, r := range returns {
		if verdicts[i] == nil && r.Code != stint.StatusPending {
			p.ended[handedOut{r.ID, claimOf(r.ID, r.Token)}] = r.Code
		} else if verdicts[i] != nil && !errors.Is(verdicts[i], stint.ErrInvalidToken) {
			p.faults = append(p.faults, "a return: "+verdicts[i].Error())
		}
	}
}

// maintain lets some leases expire, maintains, and looks whether the tables fit together meanwhile.
func (p *player) maintain(ctx context.Context) {
	for range p.upkeep {
		_, err := p.pool.Exec(ctx, `
			WITH chosen AS MATERIALIZED (
				SELECT claim, part FROM stint.leases ORDER BY random() LIMIT $1
				FOR UPDATE SKIP LOCKED
			)
			UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 s' FROM chosen
			WHERE leases.claim = chosen.claim AND leases.part = chosen.part`, 1+p.random.IntN(4))
		p.record("age leases", err, false)
		p.record("Maintain", p.store.Maintain(ctx), false)
		p.checkTables(ctx)
	}
}

// finish performs what is left, when everybody else has gone.
func (p *play) finish(ctx context.Context) {
	const roundsMax = 1000
	empty := 0
	for range roundsMax {
		for _, statement := range []string{
			"UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 s'",
			"UPDATE stint.scheduled SET not_before = statement_timestamp() - interval '1 s'",
		} {
			_, err := p.pool.Exec(ctx, statement)
			p.record("let time pass", err, false)
		}
		p.record("Maintain", p.store.Maintain(ctx), false)
		last := &player{play: p}
		owned, err := p.store.OwnTasks(ctx, "last", 20, []string{"act"}, time.Hour)
		p.record("OwnTasks", err, false)
		if len(owned) == 0 {
			if empty++; empty == 2 {
				return
			}
		}
		returns := make([]stint.Return, len(owned))
		for i, task := range owned {
			p.mutex.Lock()
			p.owned[handedOut{task.ID, claimOf(task.ID, task.Token)}] = told{
				completed: task.Completed, aborted: task.Aborted,
			}
			p.mutex.Unlock()
			returns[i] = stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			}
		}
		verdicts, err := p.store.ReturnTasks(ctx, returns)
		p.record("ReturnTasks", err, false)
		last.settled(returns, verdicts)
	}
	p.fault("there is no end to what is left")
}
