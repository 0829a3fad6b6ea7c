package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

var (
	//go:embed sql/xact_commits.sql
	xactCommitsSQL string
	//go:embed sql/end_connections.sql
	endConnectionsSQL string
	//go:embed sql/topics_heard.sql
	topicsHeardSQL string
	//go:embed sql/ready_count.sql
	readyCountSQL string
)

// Figures of W14-workers and W14-presence. What is idle, is a second of it.
const (
	figureWait    = "until all wait"
	figureIdle    = "idle"
	figureIdleCPU = "idle, server CPU"
	figureWake    = "insert to fetch p50"

	figureRegister    = "register"
	figureAnother     = "register one more p50"
	figureHandOnFirst = "first handed on"
	figureHandOn      = "all handed on"
)

// unitCommits is what a store that waits costs the server.
const unitCommits = "transactions/s"

const lookSoon = 20 * time.Millisecond

// workerOf are the actor and the action of a worker in the variant.
func (r *run) workerOf(n int, actions []string) (actor stint.ActorID, action []string) {
	actor = "actor"
	if r.Variant == manyActors || r.Variant == someActors {
		actor = stint.ActorID(fmt.Sprintf("actor-%d", n))
	}
	at := n % len(actions)
	return actor, actions[at : at+1]
}

// performByMany measures workers that wait, own a task and return it: all at one store, with one
// actor or, a tenth as many, an actor or an action each. First they all wait for nothing, then for
// one task at a time, then for many.
func performByMany(ctx context.Context, r *run) error {
	inserting, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	const connections = 20
	pool, err := r.pool(ctx, connections)
	if err != nil {
		return err
	}
	store, err := stint.New(pool, stint.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	live, stop := context.WithCancel(ctx)
	defer stop()
	from := min(20, r.Tasks/2) // the tasks before are inserted one by one
	all := &crowd{run: r, store: store, handed: make(chan time.Time, 1), stop: stop}
	ended := make(chan error, 1)
	begun := now()
	go func() { ended <- all.perform(ctx, live) }()
	err = errors.Join(r.awaitCount(ctx, topicsHeardSQL, len(r.actionsOf())), r.awaitCalm(ctx))
	if err != nil {
		return err
	}
	r.set(figureWait, time.Since(begun).Seconds())
	if err := errors.Join(r.idle(ctx), all.wake(ctx, inserting, from)); err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		err := r.insertActions(ctx, inserting, from, r.Tasks)
		if err != nil {
			stop()
		}
		return r.Tasks - from, errors.Join(err, <-ended)
	})
	r.set(figureOwn, percentile(all.took, 0.50))
	return errors.Join(err, checkStint(ctx, r, inserting), store.Close(ctx), inserting.Close(ctx))
}

// A crowd are workers at one store, which own one task at a time until all are done.
type crowd struct {
	run    *run
	store  *stint.Store
	stop   func()
	handed chan time.Time // when a task was fetched, if anybody wants to know
	done   atomic.Int64

	mutex sync.Mutex
	took  []float64 // milliseconds of each wait; under mutex
}

func (c *crowd) perform(ctx, live context.Context) error {
	actions := c.run.actionsOf()
	workers := min(c.run.Callers, c.run.Tasks)
	if c.run.Variant != oneActor {
		workers = min(someWorkers, workers)
	}
	return inParallel(ctx, workers, func(ctx context.Context, worker int) error {
		actor, action := c.run.workerOf(worker, actions)
		for {
			begun := now()
			owned, err := c.store.WaitToOwnTasks(live, actor, 1, action, time.Minute)
			if err != nil {
				return untilEnd(live, err)
			}
			handed := now()
			select {
			case c.handed <- handed:
			default:
			}
			if err := returnAll(ctx, c.store, owned); err != nil {
				return err
			}
			c.mutex.Lock()
			c.took = append(c.took, millis(handed.Sub(begun)))
			c.mutex.Unlock()
			if c.done.Add(1) == int64(c.run.Tasks) {
				c.stop()
			}
		}
	})
}

// wake inserts so many tasks, one at a time, and tells how long it takes until each is fetched.
func (c *crowd) wake(ctx context.Context, inserting *stint.Store, often int) error {
	return c.run.timeCalls(figureWake, often, func(i int) error {
		if err := c.run.insertActions(ctx, inserting, i, i+1); err != nil {
			return err
		}
		select {
		case <-c.handed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// awaitCount waits until a statement counts as many.
func (r *run) awaitCount(ctx context.Context, statement string, atLeast int) error {
	for {
		n, err := r.count(ctx, statement)
		if err != nil || n >= atLeast {
			return err
		}
		select {
		case <-time.After(lookSoon):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitCalm waits until there are no fewer transactions in a second than in the one before.
func (r *run) awaitCalm(ctx context.Context) error {
	before, rate := 0, math.MaxInt
	for {
		total, err := r.count(ctx, xactCommitsSQL)
		if err != nil {
			return err
		}
		if before > 0 {
			if total-before >= rate {
				return nil
			}
			rate = total - before
		}
		before = total
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// idle tells how many transactions a second the stores make that wait, and the microseconds of the
// server's processor for it.
func (r *run) idle(ctx context.Context) error {
	<-time.After(time.Second) // until the statistics have what was before
	begun := now()
	before, err := r.readMeter(ctx)
	if err != nil {
		return err
	}
	first, err := r.count(ctx, xactCommitsSQL)
	if err != nil {
		return err
	}
	<-time.After(r.Lasts)
	after, err := r.readMeter(ctx)
	if err != nil {
		return err
	}
	last, err := r.count(ctx, xactCommitsSQL)
	seconds := time.Since(begun).Seconds()
	r.set(figureIdle, float64(last-first)/seconds)
	r.set(figureIdleCPU, 1e6*(after.server-before.server).Seconds()/seconds)
	return err
}

// loseProcess measures how soon the tasks of a process that dies are handed on, where one actor
// owns them all, or an actor each.
func loseProcess(ctx context.Context, r *run) error {
	heir, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	lost, die, err := r.mortalStore(ctx)
	if err != nil {
		return err
	}
	if err := insertStintTasks(ctx, r, heir, r.Tasks); err != nil {
		return err
	}
	if err := r.registerAll(ctx, lost); err != nil {
		return err
	}
	// Whoever owns watches the sessions of the others.
	if _, err := heir.OwnTasks(ctx, "heir", 1, []string{"nothing"}, time.Hour); err != nil {
		return err
	}
	if err := r.idle(ctx); err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		begun := now()
		if err := die(); err != nil {
			return 0, err
		}
		if err := r.awaitCount(ctx, readyCountSQL, 1); err != nil {
			return 0, err
		}
		r.set(figureHandOnFirst, time.Since(begun).Seconds())
		err := r.awaitCount(ctx, readyCountSQL, r.Tasks)
		r.set(figureHandOn, time.Since(begun).Seconds())
		return r.Tasks, err
	})
	live, stop := context.WithCancel(ctx)
	stop()
	_ = lost.Close(live) // it cannot reach the database
	return errors.Join(err, heir.Close(ctx))
}

// mortalStore returns a store that loses its connections when die is called, and gets no others.
func (r *run) mortalStore(ctx context.Context) (store *stint.Store, die func() error, err error) {
	const name = "mortal"
	config, err := pgxpool.ParseConfig(r.URL)
	if err != nil {
		return nil, nil, err
	}
	var dead atomic.Bool
	config.ConnConfig.RuntimeParams["application_name"] = name
	config.MaxConns = drainers
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if dead.Load() {
			return errors.New("this process is dead")
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	r.mutex.Lock()
	r.pools = append(r.pools, pool)
	r.mutex.Unlock()
	store, err = stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever, Logger: slog.New(slog.DiscardHandler),
	})
	return store, func() error {
		dead.Store(true)
		_, err := r.count(ctx, endConnectionsSQL, name)
		return err
	}, err
}

// registerAll registers the actors, all at once, and has them own all tasks, an equal share each.
func (r *run) registerAll(ctx context.Context, store *stint.Store) error {
	actors := 1
	if r.Variant == manyActors {
		actors = r.Tasks
	}
	actions := []string{stintAction}
	register := func(n int) error {
		actor, _ := r.workerOf(n, actions)
		return store.RegisterActor(ctx, actor, actions)
	}
	begun := now()
	err := inParallel(ctx, actors, func(_ context.Context, n int) error { return register(n) })
	if err != nil {
		return err
	}
	r.set(figureRegister, time.Since(begun).Seconds())
	const often = 5
	err = r.timeCalls(figureAnother, often, func(i int) error { return register(actors + i) })
	if err != nil {
		return err
	}
	return inBatches(ctx, drainers, actors, 1, func(ctx context.Context, n, _ int) error {
		actor, _ := r.workerOf(n, actions)
		owned, err := store.WaitToOwnTasks(ctx, actor, r.Tasks/actors, actions, time.Hour)
		if err == nil && len(owned) != r.Tasks/actors {
			err = fmt.Errorf("%s owns %d tasks", actor, len(owned))
		}
		return err
	})
}
