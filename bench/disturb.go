package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed sql/dead_rows.sql
var deadRowsSQL string

const (
	// disturbedSlots are those of each of the workers, of which there are so many.
	disturbedSlots   = 16
	disturbedWorkers = 2

	// disturbedRate is how many tasks are inserted a second, as by default in the public harness.
	disturbedRate = 800

	// rescuePatience is how long tasks of a killed worker may take to be handed on.
	rescuePatience = 3 * time.Minute
)

// Figures of W19.
const (
	figureLongest = "longest"
	figureDoubled = "performed again"
	figureDead    = "dead rows"
)

// disturbedWorkloads are those of W19, one for each disturbance.
func disturbedWorkloads() []workload {
	var all []workload
	for _, d := range disturbances() {
		all = append(all, workload{
			id: d.id, title: d.title, once: true, perSecond: disturbedRate,
			figures: []figure{
				{figureP50, unitMilli},
				{figureP99, unitMilli},
				{figureLongest, unitSecond},
				{figureDoubled, unitTasks},
				{figureDead, "rows"},
			},
		})
	}
	return all
}

// disturbedEntries are those of a contender, whose tasks are in a table.
func disturbedEntries(variant string, open opener, table string) []entry {
	var entries []entry
	for _, d := range disturbances() {
		entries = append(entries, entry{
			workload: d.id, variant: variant, perform: open,
			measure: func(ctx context.Context, r *run) error {
				return r.measureDisturbed(ctx, open, table, d)
			},
		})
	}
	return entries
}

// A fate is what becomes of a task.
type fate struct {
	inserted     time.Time // when the insert was called
	disturbed    bool      // it was inserted during the disturbance
	begun, ended time.Time // for the first time
	ends         int
}

// A scene is a disturbance under way.
type scene struct {
	*run
	queue   slotted
	table   string
	workers [disturbedWorkers]*performer

	mutex     sync.Mutex
	fates     []fate // by number; under mutex
	rate      int    // under mutex
	disturbed bool   // under mutex
}

// note notes what a performer tells.
func (s *scene) note(a act) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	f := &s.fates[a.number]
	switch {
	case !a.ends && f.begun.IsZero():
		f.begun = a.at
	case a.ends:
		f.ends++
		if f.ends == 1 {
			f.ended = a.at
		}
	}
}

// locked calls do while nobody else changes the scene.
func (s *scene) locked(do func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	do()
}

// startWorker starts the worker with a number.
func (s *scene) startWorker(ctx context.Context, i int) (err error) {
	s.workers[i], err = startPerformer(ctx, s.job, s.note)
	return err
}

// measureDisturbed measures what a disturbance does to tasks that are inserted at a rate. It begins
// when all is warm, and after it the tasks go on to come for half of its time.
func (r *run) measureDisturbed(
	ctx context.Context, open opener, table string, d disturbance,
) error {
	inserter, err := open(ctx, r, disturbedSlots)
	if err != nil {
		return err
	}
	s := &scene{run: r, queue: inserter, table: table, rate: r.PerSecond}
	for i := range s.workers {
		if err := s.startWorker(ctx, i); err != nil {
			return err
		}
	}
	live, rest := context.WithCancel(ctx)
	defer rest()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.insertSteadily(ctx, live) })
	group.Go(func() error {
		defer rest()
		if err := pause(ctx, r.Lasts/2); err != nil {
			return err
		}
		err := r.measure(ctx, func(ctx context.Context) (int, error) {
			s.locked(func() { s.disturbed = true })
			err := d.disturb(ctx, s)
			s.locked(func() { s.disturbed = false })
			return s.countDisturbed(), err
		})
		if err != nil {
			return err
		}
		dead, err := r.count(ctx, deadRowsSQL)
		r.set(figureDead, float64(dead))
		return errors.Join(err, pause(ctx, r.Lasts/2))
	})
	ctx = context.WithoutCancel(ctx)
	err = group.Wait()
	if err == nil {
		err = s.awaitEnds(ctx)
	}
	for _, worker := range s.workers {
		if worker != nil { // it could not be started again
			err = errors.Join(err, worker.stop())
		}
	}
	s.tell()
	return errors.Join(err, s.queue.close(ctx))
}

// insertSteadily inserts what is due by the clock until live ends.
func (s *scene) insertSteadily(ctx, live context.Context) error {
	text := newBodies(s.BodyBytes)
	beat := time.NewTicker(slotBeat)
	defer beat.Stop()
	at, due := now(), 0.0
	for live.Err() == nil {
		from, rate, disturbed := 0, 0, false
		s.locked(func() { from, rate, disturbed = len(s.fates), s.rate, s.disturbed })
		here := now()
		due += float64(rate) * here.Sub(at).Seconds()
		at = here
		n := min(int(due), slotBatchMost)
		due -= float64(n)
		s.locked(func() {
			for range n {
				s.fates = append(s.fates, fate{inserted: here, disturbed: disturbed})
			}
		})
		if n > 0 {
			bodies := make([][]byte, n)
			for i := range bodies {
				bodies[i] = append(fmt.Appendf(nil, "%021d", from+i), text.rest...)
			}
			if err := s.insertSurely(ctx, from, bodies); err != nil {
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

// insertSurely inserts tasks, again and again until that succeeds, as applications do.
func (s *scene) insertSurely(ctx context.Context, from int, bodies [][]byte) error {
	for s.queue.insert(ctx, from, bodies) != nil {
		if err := pause(ctx, lookSoon); err != nil {
			return err
		}
	}
	return nil
}

// countDisturbed is how many tasks were inserted during the disturbance.
func (s *scene) countDisturbed() (n int) {
	s.locked(func() {
		for _, f := range s.fates {
			if f.disturbed {
				n++
			}
		}
	})
	return n
}

// awaitEnds waits until everything that was inserted has been performed. What never is, is lost.
func (s *scene) awaitEnds(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rescuePatience)
	defer cancel()
	for {
		left := 0
		s.locked(func() {
			for _, f := range s.fates {
				if f.ends == 0 {
					left++
				}
			}
		})
		if left == 0 {
			return nil
		}
		if err := pause(ctx, lookSoon); err != nil {
			return fmt.Errorf("%d tasks were not performed: %w", left, err)
		}
	}
}

// tell tells what became of the tasks that were inserted during the disturbance, and of all tasks
// what was performed more than once.
func (s *scene) tell() {
	var took []float64
	longest, again := time.Duration(0), 0
	for _, f := range s.fates {
		again += max(0, f.ends-1)
		longest = max(longest, f.ended.Sub(f.inserted))
		if f.disturbed {
			took = append(took, millis(f.begun.Sub(f.inserted)))
		}
	}
	slices.Sort(took)
	s.set(figureP50, percentile(took, 0.50))
	s.set(figureP99, percentile(took, 0.99))
	s.set(figureLongest, longest.Seconds())
	s.set(figureDoubled, float64(again))
}
