package main

import (
	"context"
	"errors"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// Variants of W15-action. A queue must not let one process perform more than all together, so
// workers hold as many as the limit allows.
const (
	dbosWorkerLimit = "1,000 of one process"
	dbosGlobalLimit = "1,000 at once"
)

// dbosLimits are those of the queue in a variant of W15.
func dbosLimits(r *run) []dbos.QueueOption {
	switch {
	case r.Variant == dbosWorkerLimit:
		return []dbos.QueueOption{dbos.WithWorkerConcurrency(atOnceMost)}
	case r.Variant == dbosGlobalLimit:
		return []dbos.QueueOption{
			dbos.WithWorkerConcurrency(atOnceMost), dbos.WithGlobalConcurrency(atOnceMost),
		}
	case r.Variant == onePerKey:
		return []dbos.QueueOption{dbos.WithPartitionConcurrency(1)}
	case r.Workload == paceWorkload:
		return []dbos.QueueOption{
			dbos.WithRateLimiter(&dbos.RateLimiter{Limit: paceRate, Period: time.Second}),
		}
	}
	return nil
}

func fillDBOSPace(ctx context.Context, r *run) error {
	h, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(insertDBOSTasks(ctx, r, h, r.paceTasks()), h.close())
}

// paceDBOS measures the rate at which workflows begin. Those of a period begin together, at its
// start.
func paceDBOS(ctx context.Context, r *run) error {
	h, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	var begun pace
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		err := h.work(dbosPoll, func(string) { begun.add(1) }, dbosLimits(r)...)
		if err != nil {
			return 0, err
		}
		select {
		case <-time.After(r.Lasts):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		return begun.tasks(), nil
	})
	return errors.Join(err, h.close(), r.tellPace(begun.byPeriod()))
}

// byPeriod is the pace with the hand-outs of a period taken together, of all periods but the last,
// whose end is not known. Periods are told apart by the pauses between them. Of a single period, it
// is the pace itself.
func (p *pace) byPeriod() *pace {
	const pause = 100 * time.Millisecond
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var periods pace
	tasks := 0
	for i, one := range p.all {
		if i == 0 || one.at.Sub(p.all[i-1].at) >= pause {
			periods.all = append(periods.all, handOut{one.at, tasks})
			tasks = 0
		}
		tasks += one.tasks
	}
	if len(periods.all) < 2 { //nolint:mnd // one period has no end
		return &pace{all: p.all}
	}
	return &periods
}
