package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

const (
	loopConns  = 6
	loopActors = 5
	loopLeases = 200 * time.Millisecond
	loopMost   = 12
	loseLease  = 300 * time.Millisecond
)

// loops performs tasks with the verbs alone, as programs do that have no worker: with short leases,
// and with all that may go wrong in a loop.
func (p *process) loops(ctx context.Context) error {
	store, pool, err := p.open(ctx, loopConns, stint.Options{Grace: 300 * time.Millisecond})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	for i := range loopActors {
		l := &loop{
			process: p, queue: recorder{store, p.journal, &p.tally}, actions: free(),
			pool: pool, random: p.random(uint64(i)),
			actor: stint.ActorID(fmt.Sprintf("%s.%d/%d", p.Name, p.Number, i)),
		}
		if i < 2 {
			l.actions = actions()
		}
		running.Go(func() { l.run(ctx) })
	}
	running.Go(func() {
		l := &loop{
			process: p, queue: recorder{store, p.journal, &p.tally},
			random: p.random(loopActors),
			actor:  stint.ActorID(fmt.Sprintf("%s.%d/loses", p.Name, p.Number)),
		}
		l.lose(ctx)
	})
	running.Wait()
	return closing(ctx, store, pool)
}

// A loop owns tasks and returns them, again and again.
type loop struct {
	*process
	queue   recorder
	pool    *pgxpool.Pool // nil: there is none
	actions []string
	random  *rand.Rand
	actor   stint.ActorID
	late    []stint.OwnedTask // to be returned when others may have them
}

func (l *loop) run(ctx context.Context) {
	for ctx.Err() == nil {
		lease := loopLeases * time.Duration(1+l.random.IntN(5))
		if l.random.IntN(2) == 0 {
			lease *= 5
		}
		most := 1 + l.random.IntN(loopMost)
		owned, err := l.own(ctx, most, lease)
		if err != nil && !Pause(ctx, 100*time.Millisecond) {
			return
		}
		l.perform(ctx, owned, lease)
		if len(l.late) > 0 && l.random.IntN(5) == 0 {
			l.end(ctx, l.late, stint.StatusCompleted)
			l.late = nil
		}
	}
}

func (l *loop) own(
	ctx context.Context, most int, lease time.Duration,
) ([]stint.OwnedTask, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if l.random.IntN(3) == 0 {
		owned, err := l.queue.OwnTasks(ctx, l.actor, most, l.actions, lease)
		if len(owned) > 0 || err != nil {
			return owned, err
		}
	}
	owned, err := l.queue.WaitToOwnTasks(ctx, l.actor, most, l.actions, lease)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // there was nothing
	}
	return owned, err
}

// perform does to tasks what the seed says.
func (l *loop) perform(ctx context.Context, owned []stint.OwnedTask, lease time.Duration) {
	var completed []stint.OwnedTask
	for _, task := range owned {
		if isFenced(task.ID) {
			_, _ = l.queue.Fence(ctx, task)
		}
		const outOf = 200
		switch k := l.random.IntN(outOf); {
		case k < 2: // never returned
		case k < 4:
			l.late = append(l.late, task)
		case k < 6:
			Pause(ctx, lease/2)
			_, _ = l.queue.ExtendTasksOwnership(ctx, l.actor, []stint.OwnedTask{task}, lease)
			completed = append(completed, task)
		case k < 8:
			Pause(ctx, lease+lease/4) // late
			completed = append(completed, task)
		case k < 14:
			l.end(ctx, []stint.OwnedTask{task}, stint.StatusPending)
		case k < 20:
			l.give(ctx, stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusPending, Status: "later",
				RetryAfter: time.Duration(l.random.IntN(100)) * time.Millisecond,
			})
		case k < 26:
			l.give(ctx, stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusPending, Release: true,
			})
		case k < 30:
			l.end(ctx, []stint.OwnedTask{task}, stint.StatusAborted)
		case k < 34:
			_, _ = l.queue.RecordStep(ctx, task, "a step", []byte("1"))
			completed = append(completed, task)
		case k < 38: // twice, which is one return
			l.end(ctx, []stint.OwnedTask{task}, stint.StatusCompleted)
			completed = append(completed, task)
		case k < 44:
			Pause(ctx, time.Millisecond)
			l.give(ctx, stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted, Status: "done",
				Result: resultOf(task.ID),
			})
		case k < 48 && l.pool != nil:
			l.finish(ctx, task)
		default:
			completed = append(completed, task)
		}
	}
	l.end(ctx, completed, stint.StatusCompleted)
}

// end returns tasks with a code.
func (l *loop) end(ctx context.Context, tasks []stint.OwnedTask, code stint.StatusCode) {
	var returns []stint.Return
	for _, task := range tasks {
		returns = append(returns, stint.Return{
			ID: task.ID, Token: task.Token, Code: code, Spent: spentOn(&task),
		})
	}
	l.give(ctx, returns...)
}

// give makes returns. If their answer is lost, it repeats them, or sometimes does not.
func (l *loop) give(ctx context.Context, returns ...stint.Return) {
	const attempts = 3
	for range attempts {
		if len(returns) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callMax)
		_, err := l.queue.ReturnTasks(ctx, returns)
		cancel()
		if err == nil || l.random.IntN(attempts) == 0 {
			return
		}
	}
}

// lose owns tasks that it does not return, but for a few: whoever takes them back aborts those that
// were lost too often in a row.
func (l *loop) lose(ctx context.Context) {
	const outOf = 12
	for ctx.Err() == nil {
		owned, err := l.queue.WaitToOwnTasks(ctx, l.actor, loopMost, []string{lostAction},
			loseLease)
		if err != nil && !Pause(ctx, 100*time.Millisecond) {
			return
		}
		for _, task := range owned {
			switch l.random.IntN(outOf) {
			case 0:
				l.end(ctx, []stint.OwnedTask{task}, stint.StatusPending)
			case 1:
				l.give(ctx, stint.Return{
					ID: task.ID, Token: task.Token, Code: stint.StatusPending, Release: true,
				})
			case 2:
				l.late = append(l.late, task)
			}
		}
		if len(l.late) > 0 && Pause(ctx, 2*loseLease) {
			l.end(ctx, l.late, stint.StatusPending) // some come back before others are given them
			l.late = nil
		}
	}
}
