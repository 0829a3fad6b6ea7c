package main

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

//go:embed sql/long_query.sql
var longQuerySQL string

// Figures of W20.
const (
	figureFirstP50  = "p50 of the first tenth"
	figureLastP50   = "p50 of the last tenth"
	figureLastP99   = "p99 of the last tenth"
	figureUnstarted = "not completed at the end"
)

const (
	// longQueries are how many queries overlap, each of which takes longQuery.
	longQueries = 3
	longQuery   = 2 * time.Minute

	// pinnedSlots are those of the worker.
	pinnedSlots = 64
)

// A pin keeps the server from clearing dead rows away until live ends.
type pin struct {
	id, title string
	perSecond int
	hold      func(ctx, live context.Context, r *run) error
}

func pins() []pin {
	return []pin{
		{"W20-snapshot-800", "800 tasks/s under one old snapshot", 800, holdSnapshot},
		{"W20-snapshot-1600", "1,600 tasks/s under one old snapshot", 1600, holdSnapshot},
		{"W20-queries-800", "800 tasks/s beside long queries", 800, queryOn},
	}
}

// pinnedWorkloads are those of W20, one for each pin.
func pinnedWorkloads() []workload {
	var all []workload
	for _, p := range pins() {
		all = append(all, workload{
			id: p.id, title: p.title, callers: pinnedSlots, perSecond: p.perSecond,
			lasts: 10 * time.Minute, once: true,
			figures: []figure{
				{figureLast, unitRate},
				{figureFirstP50, unitMilli},
				{figureLastP50, unitMilli},
				{figureLastP99, unitMilli},
				{figureUnstarted, unitTasks},
				{figureDead, "rows"},
				{figureCores, unitCores},
			},
		})
	}
	return all
}

// pinnedEntries are those of a contender.
func pinnedEntries(variant string, open opener) []entry {
	var entries []entry
	for _, p := range pins() {
		entries = append(entries, entry{
			workload: p.id, variant: variant, notQuick: true,
			measure: func(ctx context.Context, r *run) error { return pacePinned(ctx, r, open, p) },
		})
	}
	return entries
}

// pacePinned measures a worker for which so many tasks a second are inserted while a pin holds.
func pacePinned(ctx context.Context, r *run, open opener, p pin) error {
	s, err := newSlotRun(ctx, r, open, r.Callers)
	if err != nil {
		return err
	}
	var took tenths
	var began atomic.Int64
	stop, err := s.work(ctx, func(body []byte) {
		if at, ago := s.insertedAt(body); began.Load() > 0 {
			took.add(at-time.Duration(began.Load()), r.Lasts, millis(ago))
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
	group.Go(func() error { return p.hold(ctx, live, r) })
	group.Go(func() error {
		defer rest()
		if err := pause(ctx, slotTold); err != nil {
			return err
		}
		began.Store(int64(time.Since(s.begun)))
		return r.measurePinned(ctx, s)
	})
	ctx = context.WithoutCancel(ctx)
	err = group.Wait()
	end := s.end
	if late := s.awaitAll(ctx); errors.Is(late, context.DeadlineExceeded) {
		end = s.leave // it has fallen too far behind, by as much as figureUnstarted
	} else {
		err = errors.Join(err, late)
	}
	if err := errors.Join(err, end(ctx, stop)); err != nil {
		return err
	}
	if first := took.of(0); len(first) > 0 {
		r.set(figureFirstP50, percentile(first, 0.50))
	}
	if last := took.of(9); len(last) > 0 { // or it did not come to any
		r.set(figureLastP50, percentile(last, 0.50))
		r.set(figureLastP99, percentile(last, 0.99))
	}
	return nil
}

// measurePinned measures the time of the workload, and what there is at its end.
func (r *run) measurePinned(ctx context.Context, s *slotRun) error {
	var counts []int64
	err := r.measure(ctx, func(ctx context.Context) (int, error) {
		before := s.performed.Load()
		counts = countTenths(ctx, r.Lasts/10, &s.performed)
		return int(s.performed.Load() - before), ctx.Err()
	})
	if err != nil {
		return err
	}
	r.tellSlots()
	r.set(figureLast, float64(counts[9]-counts[8])/(r.Lasts/10).Seconds())
	r.set(figureUnstarted, float64(s.inserted.Load()-s.performed.Load()))
	dead, err := r.count(ctx, deadRowsSQL)
	r.set(figureDead, float64(dead))
	return err
}

// tenths are numbers by the tenth of a time in which they arose.
type tenths struct {
	mutex   sync.Mutex
	numbers [10][]float64 // under mutex
}

// add adds a number that arose at a time since the beginning, if that is within the whole time.
func (t *tenths) add(at, whole time.Duration, number float64) {
	if at < 0 || at >= whole {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	i := int(at * 10 / whole)
	t.numbers[i] = append(t.numbers[i], number)
}

func (t *tenths) of(tenth int) []float64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.numbers[tenth]
}

// holdSnapshot keeps one snapshot.
func holdSnapshot(ctx, live context.Context, r *run) error {
	return r.underOldSnapshot(ctx, func() error {
		<-live.Done()
		return nil
	})
}

// queryOn has sessions that each ask one long query after the other, so that several of them are
// always under way.
func queryOn(ctx, live context.Context, r *run) error {
	return inParallel(ctx, longQueries, func(ctx context.Context, i int) error {
		if err := pause(live, time.Duration(i)*longQuery/longQueries); err != nil {
			return nil
		}
		conn, err := pgx.Connect(ctx, r.URL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		for live.Err() == nil {
			if _, err := conn.Exec(live, longQuerySQL, longQuery.Seconds()); err != nil {
				return untilEnd(live, err)
			}
		}
		return nil
	})
}
