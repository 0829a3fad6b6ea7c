package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

//go:embed sql/connection_count.sql
var connectionCountSQL string

// Figures of W18.
const (
	figureCPU          = "processor"
	figureTransactions = "transactions"
	figureCores        = "server"
	figureP95          = "p95"
	figureConnections  = "connections"

	unitMicroEach   = "µs/task"
	unitPerTask     = "/task"
	unitCores       = "cores"
	unitConnections = ""
)

const (
	// slotWork is how long a handler sleeps.
	slotWork = time.Millisecond

	// slotConnections is the size of the one pool of the process, as in the public harness.
	slotConnections = 20

	// slotBacklog is how many tasks are unfinished, but for those that slotBatch would exceed.
	slotBacklog = 4096

	// slotBatch is how many tasks are inserted at a time, as in the public harness, slotBatchMost
	// where the backlog shrinks nevertheless.
	slotBatch, slotBatchMost = 128, 512

	// slotWarm is the part of the time that passes before it is measured.
	slotWarm = 5

	// slotTold is after how long a session that does nothing has told of all its transactions: the
	// server has it wait for 10 s, and the start lasts a while. What idle workers and few tasks
	// cost is measured after that, so that the start does not count.
	slotTold = 15 * time.Second

	// slotIdle is how long idle workers are measured at least: what is told late counts little.
	slotIdle = time.Minute

	// slotBeat is the time between two inserts at a fixed rate, as in the public harness.
	slotBeat = 10 * time.Millisecond
)

// slotWorkloads are those of W18: one process that inserts and performs, with one pool.
func slotWorkloads() []workload {
	var all []workload
	for _, slots := range slotCounts() {
		all = append(all, workload{
			id: fmt.Sprintf("W18-slots-%d", slots), title: fmt.Sprintf("%d slots, busy", slots),
			callers: slots,
			figures: []figure{rate, {figureCPU, unitMicroEach}, {figureTransactions, unitPerTask}},
		})
	}
	for _, perSecond := range []int{800, 50} {
		all = append(all, workload{
			id:      fmt.Sprintf("W18-paced-%d", perSecond),
			title:   fmt.Sprintf("64 slots, %d tasks/s", perSecond),
			callers: 64, perSecond: perSecond,
			figures: []figure{
				{figureP50, unitMilli},
				{figureP95, unitMilli},
				{figureP99, unitMilli},
				{figureCores, unitCores},
				{figureCPU, unitMicroEach},
				{figureTransactions, unitPerTask},
			},
		})
	}
	for _, workers := range []int{1, 60} {
		all = append(all, workload{
			id: fmt.Sprintf("W18-idle-%d", workers), title: fmt.Sprintf("%d idle workers", workers),
			callers: workers, once: true,
			figures: []figure{
				{figureIdle, unitCommits},
				{figureCores, unitCores},
				{figureConnections, unitConnections},
			},
		})
	}
	return all
}

// slotCounts are how many slots a busy worker has.
func slotCounts() []int { return []int{4, 16, 64, 128, 256} }

// slotEntries are those of a contender, in a variant. Idle is how it opens workers that are idle.
func slotEntries(variant string, busy, idle opener, picked func(w workload) bool) []entry {
	var entries []entry
	for _, w := range slotWorkloads() {
		if !picked(w) {
			continue
		}
		e := entry{workload: w.id, variant: variant}
		switch {
		case w.perSecond > 0:
			e.measure = func(ctx context.Context, r *run) error { return paceSlots(ctx, r, busy) }
		case w.figures[0] == rate:
			e.measure = func(ctx context.Context, r *run) error { return fillSlots(ctx, r, busy) }
		default:
			e.measure = func(ctx context.Context, r *run) error { return idleSlots(ctx, r, idle) }
		}
		entries = append(entries, e)
	}
	return entries
}

// A slotted is a process that inserts tasks and performs them, with one pool.
type slotted struct {
	// insert inserts tasks, of which the first has this number, in one call.
	insert func(ctx context.Context, from int, bodies [][]byte) error

	// work starts a worker, whose handler calls perform. Stop returns when everything that was
	// performed is completed.
	work func(ctx context.Context, perform func(body []byte)) (stop func() error, err error)

	// check makes sure that so many of the tasks are completed.
	check func(ctx context.Context, inserted, performed int) error

	// close is called when the worker has stopped.
	close func(ctx context.Context) error
}

// An opener makes it for a number of slots.
type opener func(ctx context.Context, r *run, slots int) (slotted, error)

// A slotRun counts what is inserted and performed.
type slotRun struct {
	slotted
	text                bodies
	begun               time.Time
	inserted, performed atomic.Int64
}

func newSlotRun(ctx context.Context, r *run, open opener, slots int) (*slotRun, error) {
	s, err := open(ctx, r, slots)
	return &slotRun{slotted: s, text: newBodies(r.BodyBytes), begun: now()}, err
}

// add inserts so many tasks, whose bodies begin with the time.
func (s *slotRun) add(ctx context.Context, n int) error {
	all := make([][]byte, n)
	for i := range all {
		all[i] = append(fmt.Appendf(nil, "%021d", time.Since(s.begun)), s.text.rest...)
	}
	err := s.insert(ctx, int(s.inserted.Load()), all)
	s.inserted.Add(int64(n))
	return err
}

// insertedAt is the time at which the task with a body was inserted, and how long ago that was.
func (s *slotRun) insertedAt(body []byte) (at, ago time.Duration) {
	here := time.Since(s.begun)
	n, err := strconv.ParseInt(string(body[:len(body)-len(s.text.rest)]), 10, 64)
	if err != nil {
		return 0, here
	}
	return time.Duration(n), here - time.Duration(n)
}

// end stops the worker, and checks and closes what there is.
func (s *slotRun) end(ctx context.Context, stop func() error) error {
	err := stop()
	if err == nil {
		err = s.check(ctx, int(s.inserted.Load()), int(s.performed.Load()))
	}
	return errors.Join(err, s.close(ctx))
}

// leave ends a run without all that was inserted being performed.
func (s *slotRun) leave(ctx context.Context, stop func() error) error {
	return errors.Join(stop(), s.close(ctx))
}

var errStarved = errors.New("there were not enough tasks to keep the slots busy")

// fillSlots measures what a worker does whose slots are all busy.
func fillSlots(ctx context.Context, r *run, open opener) error {
	s, err := newSlotRun(ctx, r, open, r.Callers)
	if err != nil {
		return err
	}
	window := semaphore.NewWeighted(slotBacklog)
	for window.TryAcquire(slotBatch) {
		if err := s.add(ctx, slotBatch); err != nil {
			return err
		}
	}
	stop, err := s.work(ctx, func([]byte) {
		<-time.After(slotWork)
		s.performed.Add(1)
		window.Release(1)
	})
	if err != nil {
		return err
	}
	live, rest := context.WithCancel(ctx)
	defer rest()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for window.Acquire(live, slotBatch) == nil {
			if s.inserted.Load()-s.performed.Load() < int64(r.Callers) {
				return errStarved
			}
			n := slotBatch
			for n < slotBatchMost && window.TryAcquire(slotBatch) {
				n += slotBatch
			}
			if err := s.add(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		defer rest()
		return r.measureSlots(ctx, s, r.Lasts/slotWarm)
	})
	return errors.Join(group.Wait(), s.end(context.WithoutCancel(ctx), stop))
}

// measureSlots measures what is performed, after a while in which everything becomes warm.
func (r *run) measureSlots(ctx context.Context, s *slotRun, warm time.Duration) error {
	if err := pause(ctx, warm); err != nil {
		return err
	}
	err := r.measure(ctx, func(ctx context.Context) (int, error) {
		before := s.performed.Load()
		err := pause(ctx, r.Lasts)
		return int(s.performed.Load() - before), err
	})
	r.tellSlots()
	return err
}

// tellSlots tells what was measured, by tasks and by time.
func (r *run) tellSlots() {
	f := r.report
	r.set(figureCPU, 1e6*(f.ServerCPU+f.ClientCPU)/float64(f.Tasks))
	r.set(figureTransactions, float64(f.Transactions)/float64(f.Tasks))
	r.set(figureIdle, float64(f.Transactions)/f.Seconds)
	r.set(figureCores, f.ServerCPU/f.Seconds)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// paceSlots measures a worker for which so many tasks a second are inserted.
func paceSlots(ctx context.Context, r *run, open opener) error {
	s, err := newSlotRun(ctx, r, open, r.Callers)
	if err != nil {
		return err
	}
	var mutex sync.Mutex
	var took []float64 // under mutex
	var from, to atomic.Int64
	stop, err := s.work(ctx, func(body []byte) {
		at, ago := s.insertedAt(body)
		if at >= time.Duration(from.Load()) && at < time.Duration(to.Load()) {
			mutex.Lock()
			took = append(took, millis(ago))
			mutex.Unlock()
		}
		<-time.After(slotWork)
		s.performed.Add(1)
	})
	if err != nil {
		return err
	}
	live, rest := context.WithCancel(ctx)
	defer rest()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.addPaced(ctx, live, r.PerSecond) })
	group.Go(func() error {
		defer rest()
		from.Store(int64(time.Since(s.begun) + slotTold))
		to.Store(from.Load() + int64(r.Lasts))
		return r.measureSlots(ctx, s, slotTold)
	})
	err = errors.Join(group.Wait(), s.awaitAll(context.WithoutCancel(ctx)))
	if err := errors.Join(err, s.end(context.WithoutCancel(ctx), stop)); err != nil {
		return err
	}
	r.set(figureP50, percentile(took, 0.50))
	r.set(figureP95, percentile(took, 0.95))
	r.set(figureP99, percentile(took, 0.99))
	return nil
}

// addPaced inserts so many tasks a second, whatever becomes of them, until live ends. What is due
// follows from the clock, so an insert that takes long is made good for.
func (s *slotRun) addPaced(ctx, live context.Context, perSecond int) error {
	beat := time.NewTicker(slotBeat)
	defer beat.Stop()
	begun := now()
	for live.Err() == nil {
		due := int(float64(perSecond)*time.Since(begun).Seconds()) - int(s.inserted.Load())
		if due > 0 {
			if err := s.add(ctx, min(due, slotBatch)); err != nil {
				return err
			}
		}
		select {
		case <-beat.C:
		case <-live.Done():
		}
	}
	return nil
}

// awaitAll waits until everything that was inserted is performed.
func (s *slotRun) awaitAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, latencyPatience)
	defer cancel()
	for s.performed.Load() < s.inserted.Load() {
		if err := pause(ctx, lookSoon); err != nil {
			return err
		}
	}
	return nil
}

// idleSlots measures workers that have nothing to do, each with a pool of its own. A "task" is a
// second of one of them.
func idleSlots(ctx context.Context, r *run, open opener) error {
	for range r.Callers {
		s, err := newSlotRun(ctx, r, open, 0)
		if err != nil {
			return err
		}
		stop, err := s.work(ctx, func([]byte) {})
		if err != nil {
			return err
		}
		defer func() { _ = s.end(context.WithoutCancel(ctx), stop) }()
	}
	if err := pause(ctx, slotTold); err != nil {
		return err
	}
	err := r.measure(ctx, func(ctx context.Context) (int, error) {
		lasts := max(2*r.Lasts, slotIdle)
		return max(1, int(lasts.Seconds())) * r.Callers, pause(ctx, lasts)
	})
	if err != nil {
		return err
	}
	r.tellSlots()
	connections, err := r.count(ctx, connectionCountSQL)
	r.set(figureConnections, float64(connections-1)) // without the observer's
	return err
}
