package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/service"
)

// Variants of W12: the verbs of the library, and those of a client of a service on top of it.
const (
	byLibrary = "library"
	byService = "service"
)

// An owner has the verbs of those who own tasks: a store, a shard, or a client.
type owner interface {
	OwnTasks(
		ctx context.Context, actor stint.ActorID, maxTasks int, actions []string,
		lease time.Duration,
	) ([]stint.OwnedTask, error)
	WaitToOwnTasks(
		ctx context.Context, actor stint.ActorID, maxTasks int, actions []string,
		lease time.Duration,
	) ([]stint.OwnedTask, error)
	ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error)
}

// serviceEntries are those of W12.
func serviceEntries() []entry {
	var entries []entry
	for _, variant := range []string{byLibrary, byService} {
		for _, batch := range []int{1, 100, 1000} {
			entries = append(entries, entry{
				workload: fmt.Sprintf("W12-%d", batch), variant: variant, fill: fillStint,
				measure: func(ctx context.Context, r *run) error {
					return withOwner(ctx, r, func(by owner) error {
						return drainBy(ctx, r, by, batch)
					})
				},
			})
		}
		entries = append(entries, entry{
			workload: "W12-latency", variant: variant, fill: fillStint,
			measure: func(ctx context.Context, r *run) error {
				return withOwner(ctx, r, func(by owner) error {
					return timeVerbs(ctx, r, by)
				})
			},
		})
	}
	return entries
}

// withOwner calls work with the store or, where the variant says so, with a client of a service on
// it. The service is in this process, and what passes between them goes through a TCP socket.
func withOwner(ctx context.Context, r *run, work func(by owner) error) error {
	pool, err := r.pool(ctx, r.Callers)
	if err != nil {
		return err
	}
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		return err
	}
	if r.Variant == byLibrary {
		return errors.Join(work(store), checkStint(ctx, r, store), store.Close(ctx))
	}
	served, err := service.New(pool, store, service.Options{})
	if err != nil {
		return err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := service.NewServer(served)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	by, err := client.New("http://"+listener.Addr().String(), client.Options{})
	if err != nil {
		return err
	}
	err = errors.Join(work(by), by.Close(ctx), server.Shutdown(ctx), served.Close(ctx))
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}

// drainBy owns and completes tasks in all callers, so many a call.
func drainBy(ctx context.Context, r *run, by owner, batch int) error {
	return r.measure(ctx, func(ctx context.Context) (int, error) {
		return completeStint(ctx, by, r.Tasks, r.Callers, batch, []string{stintAction})
	})
}

// timeVerbs owns and returns a task at a time, and tells how long the calls take.
func timeVerbs(ctx context.Context, r *run, by owner) error {
	const warmUp = 100
	owning, returning := make([]float64, 0, r.Tasks), make([]float64, 0, r.Tasks)
	err := r.measure(ctx, func(ctx context.Context) (int, error) {
		for range r.Tasks {
			begun := now()
			owned, err := by.OwnTasks(ctx, "actor", 1, []string{stintAction}, time.Minute)
			if err != nil || len(owned) != 1 {
				return 0, fmt.Errorf("owned %d tasks: %w", len(owned), err)
			}
			middle := now()
			if err := returnAll(ctx, by, owned); err != nil {
				return 0, err
			}
			owning = append(owning, millis(middle.Sub(begun)))
			returning = append(returning, millis(now().Sub(middle)))
		}
		return r.Tasks, nil
	})
	from := min(warmUp, len(owning)/2)
	r.set(figureOwn, percentile(owning[from:], 0.50))
	r.set(figureReturn, percentile(returning[from:], 0.50))
	return err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
