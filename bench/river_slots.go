package main

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"
)

// Variants of River in W18: as eager as it can be, and as the public harness has it.
const (
	riverPolling1  = "polling at 1 ms"
	riverPolling50 = "polling at 50 ms"
)

// riverRescue is how long a job may take in W19, as in the public harness. The default is an hour.
const riverRescue = 30 * time.Second

// riverSlotEntries are polling at 1 ms, and at a fixed rate also at 50 ms, which costs less. What
// is idle has the defaults.
func riverSlotEntries() []entry {
	paced := func(w workload) bool { return w.perSecond > 0 }
	idle := func(w workload) bool { return w.picked("W18-idle") }
	eager := slotEntries(riverPolling1, openRiverSlotsSoon, nil,
		func(w workload) bool { return !idle(w) })
	calm := slotEntries(riverPolling50, openRiverSlotsCalm, nil, paced)
	return append(append(eager, calm...), slotEntries("default", nil, openRiverSlotsUnset, idle)...)
}

// openRiverSlotsSoon has a client that polls as often as it can.
func openRiverSlotsSoon(ctx context.Context, r *run, slots int) (slotted, error) {
	return openRiverSlots(ctx, r, slots, time.Millisecond)
}

// openRiverSlotsCalm has one that polls as in the public harness.
func openRiverSlotsCalm(ctx context.Context, r *run, slots int) (slotted, error) {
	return openRiverSlots(ctx, r, slots, 50*time.Millisecond)
}

// openRiverSlotsUnset has one with the defaults.
func openRiverSlotsUnset(ctx context.Context, r *run, slots int) (slotted, error) {
	return openRiverSlots(ctx, r, slots, 0)
}

// openRiverSlots has a client that polls as often, or as seldom as by default. Without slots,
// client and pool have their defaults, too.
func openRiverSlots(
	ctx context.Context, r *run, slots int, polling time.Duration,
) (slotted, error) {
	connections, workers := slotConnections, slots
	if slots == 0 {
		connections, workers = 0, 100
	}
	pool, err := r.pool(ctx, connections)
	if err != nil {
		return slotted{}, err
	}
	config := river.Config{
		FetchCooldown:     polling,
		FetchPollInterval: polling,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
	}
	if r.Perform { // River only rescues jobs that have a time-out
		config.RescueStuckJobsAfter = min(riverRescue, r.Lasts)
		config.JobTimeout = config.RescueStuckJobsAfter / 2
	}
	perform := func([]byte) {}
	client, err := newRiverWorker(pool, config,
		func(_ context.Context, job *river.Job[riverArgs]) error {
			perform([]byte(job.Args.Body))
			return nil
		})
	if err != nil {
		return slotted{}, err
	}
	return slotted{
		insert: func(ctx context.Context, _ int, bodies [][]byte) error {
			params := make([]river.InsertManyParams, len(bodies))
			for i, body := range bodies {
				params[i].Args = riverArgs{Body: string(body), kind: riverKind}
			}
			_, err := client.InsertManyFast(ctx, params)
			return err
		},
		work: func(ctx context.Context, by func(body []byte)) (func() error, error) {
			perform = by
			live := context.WithoutCancel(ctx)
			return func() error { return client.Stop(live) }, client.Start(live)
		},
		check: func(ctx context.Context, _, performed int) error {
			completed, err := r.count(ctx, riverCompletedSQL)
			if err == nil && completed != performed {
				err = fmt.Errorf("%d jobs were performed, and %d are completed",
					performed, completed)
			}
			return err
		},
		close: func(context.Context) error { return nil },
	}, nil
}
