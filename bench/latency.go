package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// latencyPace is the time between two tasks.
	latencyPace = 20 * time.Millisecond

	// latencyWarmUp is how many tasks do not count, since they make connections and plans.
	latencyWarmUp = 10

	// latencyPatience is how long the last tasks may take.
	latencyPatience = 30 * time.Second
)

// latencies inserts a task at each beat, whatever became of the ones before, and measures the time
// from the call of insert until a handler calls begun with the task's number, which is its body.
// Start makes handlers ready, and returns what stops them.
func (r *run) latencies(
	ctx context.Context,
	start func(ctx context.Context, begun func(body []byte)) (stop func() error, err error),
	insert func(ctx context.Context, body []byte) error,
) error {
	n := r.Tasks + latencyWarmUp
	called, heard := make([]time.Time, n), make([]time.Time, n)
	var left sync.WaitGroup
	left.Add(n)
	stop, err := start(ctx, func(body []byte) {
		at := now()
		if number, err := strconv.Atoi(string(body)); err == nil {
			heard[number] = at
			left.Done()
		}
	})
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		beat := time.NewTicker(latencyPace)
		defer beat.Stop()
		for i := range n {
			<-beat.C
			called[i] = now()
			if err := insert(ctx, []byte(strconv.Itoa(i))); err != nil {
				return 0, err
			}
		}
		return n, waitFor(&left, latencyPatience)
	})
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	took := make([]float64, 0, r.Tasks)
	for i := latencyWarmUp; i < n; i++ {
		took = append(took, millis(heard[i].Sub(called[i])))
	}
	r.set(figureP50, percentile(took, 0.50))
	r.set(figureP99, percentile(took, 0.99))
	return nil
}

// waitFor waits for a group, but not for ever.
func waitFor(group *sync.WaitGroup, patience time.Duration) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return errors.New("tasks were inserted and not heard of")
	}
}

// percentile is the least of the values that the share of them does not exceed.
func percentile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
