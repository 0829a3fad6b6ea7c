package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// Figures of W15-rate.
const (
	figurePace = "fetched"
	figureOff  = "off by"

	unitPercent = "%"
)

// paceRate is how many tasks a second are fetched.
const paceRate = 1000

// paceTasks is more than what is fetched in W15-rate, including what a full bucket gives.
func (r *run) paceTasks() int {
	const reserve = 15 * time.Second
	return int(paceRate * (r.Lasts + reserve).Seconds())
}

// A fetch is how many tasks were fetched at an instant.
type fetch struct {
	at    time.Time
	tasks int
}

// A pace is all that is fetched while a rate is measured.
type pace struct {
	mutex sync.Mutex
	all   []fetch // under mutex
}

func (p *pace) add(tasks int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.all = append(p.all, fetch{now(), tasks})
}

// perSecond is how many tasks a second were fetched between the first and the last fetch.
// Those of the first one do not count, since they came from what there was before it.
func (p *pace) perSecond() (float64, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.all) < 2 { //nolint:mnd // a first one and a last one
		return 0, fmt.Errorf("there were %d fetches, which makes no rate", len(p.all))
	}
	slices.SortFunc(p.all, func(a, b fetch) int { return a.at.Compare(b.at) })
	tasks := 0
	for _, one := range p.all[1:] {
		tasks += one.tasks
	}
	return float64(tasks) / p.all[len(p.all)-1].at.Sub(p.all[0].at).Seconds(), nil
}

// tellPace tells the rate of all fetches, and how far it is off the one that was asked for.
func (r *run) tellPace(p *pace) error {
	rate, err := p.perSecond()
	r.set(figurePace, rate)
	r.set(figureOff, 100*math.Abs(rate-paceRate)/paceRate)
	return err
}

func fillPace(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	err = store.SetLimits(ctx, stintAction, stint.Limits{
		Rate: stint.Rate{Tasks: paceRate, Per: time.Second},
	})
	return errors.Join(err, insertStintTasks(ctx, r, store, r.paceTasks()), store.Close(ctx))
}

// paceStint measures the rate at which those who wait for tasks get them.
func paceStint(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	if err := emptyBucket(ctx, store); err != nil {
		return err
	}
	var fetches pace
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		begun := now()
		err := inParallel(ctx, drainers, func(ctx context.Context, goroutine int) error {
			actor := workerName(goroutine)
			for time.Since(begun) < r.Lasts {
				owned, err := store.WaitToOwnTasks(
					ctx, actor, r.drainBatch(), []string{stintAction}, time.Minute)
				if err != nil {
					return err
				}
				fetches.add(len(owned))
				if err := returnAll(ctx, store, owned); err != nil {
					return err
				}
			}
			return nil
		})
		return fetches.tasks(), err
	})
	return errors.Join(err, r.tellPace(&fetches), store.Close(ctx))
}

// tasks is how many were fetched.
func (p *pace) tasks() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	n := 0
	for _, one := range p.all {
		n += one.tasks
	}
	return n
}

// emptyBucket takes what the bucket holds, until a call gets less than it asks for.
func emptyBucket(ctx context.Context, store *stint.Store) error {
	for {
		owned, err := store.OwnTasks(ctx, "worker", paceRate, []string{stintAction}, time.Minute)
		if err != nil {
			return err
		}
		if err := returnAll(ctx, store, owned); err != nil || len(owned) < paceRate {
			return err
		}
	}
}
