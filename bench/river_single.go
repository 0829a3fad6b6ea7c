package main

import (
	"context"
	"time"

	"github.com/riverqueue/river"
)

// riverEager is the variant of W4 that looks for work as soon as River can.
const riverEager = "cooldown 1 ms"

// insertRiverSingly inserts one job a call.
func insertRiverSingly(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, r.Callers)
	if err != nil {
		return err
	}
	client, err := newRiverInserter(pool, river.Config{})
	if err != nil {
		return err
	}
	text := newBodies(r.BodyBytes)
	return r.measure(ctx, func(ctx context.Context) (int, error) {
		err := inBatches(ctx, r.Callers, r.Tasks, 1,
			func(ctx context.Context, from, _ int) error {
				args := riverArgs{Body: string(text.of(from)), kind: riverKind}
				_, err := client.Insert(ctx, args, nil)
				return err
			})
		return r.Tasks, err
	})
}

// hearRiver measures the latency until a worker is called. Inserts notify at most once a cooldown,
// and fetches are as far apart; so a short cooldown is what makes River fast to hear. (Polling
// every millisecond as well had the same median, and polling alone about three times that.)
func hearRiver(ctx context.Context, r *run) error {
	config := river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
	}
	if r.Variant == riverEager {
		config.FetchCooldown = time.Millisecond
	}
	pool, err := r.pool(ctx, 4)
	if err != nil {
		return err
	}
	inserting, err := newRiverInserter(pool, river.Config{FetchCooldown: config.FetchCooldown})
	if err != nil {
		return err
	}
	start := func(ctx context.Context, begun func(body []byte)) (func() error, error) {
		pool, err := r.pool(ctx, riverConnections)
		if err != nil {
			return nil, err
		}
		client, err := newRiverWorker(pool, config,
			func(_ context.Context, job *river.Job[riverArgs]) error {
				begun([]byte(job.Args.Body))
				return nil
			})
		if err != nil {
			return nil, err
		}
		return func() error { return client.Stop(ctx) }, client.Start(ctx)
	}
	return r.latencies(ctx, start, func(ctx context.Context, body []byte) error {
		_, err := inserting.Insert(ctx, riverArgs{Body: string(body), kind: riverKind}, nil)
		return err
	})
}
