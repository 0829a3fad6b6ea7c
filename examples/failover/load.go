//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

const (
	action      = "short"
	taskTakes   = 200 * time.Millisecond
	inserters   = 4
	insertEvery = 150 * time.Millisecond
	workers     = 2
	callMax     = 5 * time.Second
	restMax     = 40 * time.Second
)

// openPool opens a pool as docs/operations/failover.md advises.
func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 6
	// A host that is lost says nothing: this notices it within some five seconds.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3,
	}}
	config.ConnConfig.DialFunc = dialer.DialContext
	return pgxpool.NewWithConfig(ctx, config)
}

// A client is a store with a pool of its own, as a process has.
type client struct {
	pool  *pgxpool.Pool
	store *stint.Store
}

func openClient(ctx context.Context, url string, logger *slog.Logger) (*client, error) {
	pool, err := openPool(ctx, url)
	if err != nil {
		return nil, err
	}
	store, err := stint.New(pool, stint.Options{
		Logger: logger, MaxLosses: stint.UnlimitedLosses,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &client{pool, store}, nil
}

// close does not wait for connections that hang.
func (c *client) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	err := c.store.Close(ctx)
	go c.pool.Close()
	return err
}

// A recorder is a store that writes into the ledger what it tells the worker.
type recorder struct {
	*stint.Store
	ledger *ledger
}

func (r recorder) given(
	actor stint.ActorID, owned []stint.OwnedTask, err error,
) ([]stint.OwnedTask, error) {
	for _, task := range owned {
		r.ledger.give(actor, task)
	}
	return owned, err
}

func (r recorder) returned(
	returns []stint.Return, verdicts []error, err error,
) ([]error, error) {
	for i, verdict := range verdicts {
		if returns[i].Code == stint.StatusCompleted && isAccepted(verdict) {
			r.ledger.accept(returns[i].Token)
		}
	}
	return verdicts, err
}

// isAccepted reports whether the owner may take its return for done.
func isAccepted(verdict error) bool {
	return verdict == nil || errors.Is(verdict, stint.ErrAlreadyReturned)
}

// OwnTasks implements [worker.Queue].
func (r recorder) OwnTasks(
	ctx context.Context, actor stint.ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	owned, err := r.Store.OwnTasks(ctx, actor, maxTasks, actions, lease)
	return r.given(actor, owned, err)
}

// WaitToOwnTasks implements [worker.Queue].
func (r recorder) WaitToOwnTasks(
	ctx context.Context, actor stint.ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	owned, err := r.Store.WaitToOwnTasks(ctx, actor, maxTasks, actions, lease)
	return r.given(actor, owned, err)
}

// ReturnTasks implements [worker.Queue].
func (r recorder) ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error) {
	verdicts, err := r.Store.ReturnTasks(ctx, returns)
	return r.returned(returns, verdicts, err)
}

// ReturnAndOwnTasks implements [worker.Queue].
func (r recorder) ReturnAndOwnTasks(
	ctx context.Context, returns []stint.Return, want stint.Want,
) (verdicts []error, owned []stint.OwnedTask, err error) {
	verdicts, owned, err = r.Store.ReturnAndOwnTasks(ctx, returns, want)
	verdicts, err = r.returned(returns, verdicts, err)
	owned, err = r.given(want.Actor, owned, err)
	return verdicts, owned, err
}

// A load is inserters and workers, each with a store of its own.
type load struct {
	ledger                   *ledger
	clients                  []*client
	inserting, working       sync.WaitGroup
	stopInserts, stopWorkers context.CancelFunc
}

func startLoad(ctx context.Context, url string, logger *slog.Logger) (*load, error) {
	l := &load{ledger: newLedger()}
	inserting, stopInserts := context.WithCancel(ctx)
	working, stopWorkers := context.WithCancel(ctx)
	l.stopInserts, l.stopWorkers = stopInserts, stopWorkers
	source, err := l.open(ctx, url, logger)
	if err != nil {
		return l, err
	}
	for i := range inserters {
		l.inserting.Go(func() { l.insert(inserting, source.store, i) })
	}
	for i := range workers {
		c, err := l.open(ctx, url, logger)
		if err != nil {
			return l, err
		}
		w, err := worker.New(recorder{c.store, l.ledger}, worker.Options{
			Actor: stint.ActorID(fmt.Sprintf("worker-%d", i)), Concurrency: 8, Logger: logger,
		}, worker.Handle(action, perform))
		if err != nil {
			return l, err
		}
		l.working.Go(func() {
			if err := w.Run(working); err != nil {
				logger.WarnContext(working, "the worker has ended", slog.Any("error", err))
			}
		})
	}
	return l, nil
}

func (l *load) open(ctx context.Context, url string, logger *slog.Logger) (*client, error) {
	c, err := openClient(ctx, url, logger)
	if err == nil {
		l.clients = append(l.clients, c)
	}
	return c, err
}

// perform is the handler of the short tasks.
func perform(ctx context.Context, task *worker.Task) (worker.Result, error) {
	if err := pause(ctx, taskTakes); err != nil {
		return worker.Result{}, err
	}
	return worker.Result{Bytes: []byte(resultOf(task.Token))}, nil
}

// insert inserts tasks one by one, and each again until it is acknowledged.
func (l *load) insert(ctx context.Context, store *stint.Store, inserter int) {
	for n := 0; ctx.Err() == nil; n++ {
		task := stint.Task{
			ID:     stint.TaskID(fmt.Sprintf("%s/%d/%06d", action, inserter, n)),
			Action: action, PostResult: true,
		}
		for repeats := 0; ; repeats++ {
			err := insertOne(ctx, store, task)
			if err == nil || errors.Is(err, stint.ErrTaskExists) {
				l.ledger.insert(task.ID, repeats)
				break
			}
			if pause(ctx, insertEvery) != nil {
				return
			}
		}
		_ = pause(ctx, insertEvery) // the loop looks
	}
}

func insertOne(ctx context.Context, store *stint.Store, task stint.Task) error {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	return store.InsertTasks(ctx, []stint.Task{task})
}

// awaitPerformed waits until each worker has performed a task that was given from now on. If one
// does not, the table will tell.
func (l *load) awaitPerformed(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryMax,
		fmt.Errorf("no task was performed within %v", recoveryMax))
	defer cancel()
	begin := time.Now()
	var most <-chan time.Time
	for {
		performed := len(l.ledger.performedSince(begin))
		if performed == workers {
			return nil
		}
		if performed > 0 && most == nil {
			most = time.After(restMax)
		}
		select {
		case <-l.ledger.changed:
		case <-most:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drain stops inserting and waits until all tasks have ended; it then judges what has happened.
func (l *load) drain(ctx context.Context, url string, logger *slog.Logger) (*verdict, error) {
	l.stopInserts()
	l.inserting.Wait()
	c, err := openClient(ctx, url, logger)
	if err != nil {
		return nil, err
	}
	defer c.close() //nolint:errcheck // nothing depends on it
	const drainMax = 2 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, drainMax, errors.New("tasks do not end"))
	defer cancel()
	var found []stint.TaskInfo
	var missing *stint.TaskError
	for ended := false; !ended; {
		found, err = c.store.GetTasks(ctx, l.ledger.ids())
		if err != nil && !errors.As(err, &missing) {
			return nil, err
		}
		ended = true
		for _, info := range found {
			ended = ended && (info.StatusCode == "" || info.StatusCode == stint.StatusCompleted)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	l.stopWorkers()
	l.working.Wait()
	// An insert that was cut off by the end may have come to a worker since.
	found, err = c.store.GetTasks(ctx, l.ledger.ids())
	if err != nil && !errors.As(err, &missing) {
		return nil, err
	}
	v := l.ledger.judge(found)
	problems, err := c.store.Check(ctx)
	v.problems = len(problems)
	for _, problem := range problems {
		v.details = append(v.details, fmt.Sprintf("Check: %v", problem))
	}
	return v, err
}

func (l *load) close() error {
	l.stopInserts()
	l.stopWorkers()
	l.inserting.Wait()
	l.working.Wait()
	var err error
	for _, c := range l.clients {
		err = errors.Join(err, c.close())
	}
	return err
}
