package shards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/worker"
)

const (
	// reportsMax is how many tasks report at once.
	reportsMax = 1000
	// reportsAtOnce is how many batches of them are under way at once, to each shard.
	reportsAtOnce = 3
	// reportLease is much longer than a report takes.
	reportLease = time.Minute
	pauseFirst  = 50 * time.Millisecond
	pauseMax    = 5 * time.Second
	// discoverEvery is how often a relay looks for shards that others have begun to use.
	discoverEvery = 5 * time.Second
)

// Run makes this process a relay, until ctx ends: it reports the ends of tasks to the shards where
// others wait for them, and finishes inserts whose process died. Any number of relays may run; at
// least one must, with all shards in reach now and then. A shard that is away delays what depends
// on it, and nothing else.
//
// If the topology is a pattern, the relay serves the shards that the cluster has used, and those
// that tasks on these name.
func (c *Cluster) Run(ctx context.Context) error {
	random, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("run a relay: %w", err)
	}
	host, _ := os.Hostname()
	r := &relay{
		cluster: c, running: map[string]bool{},
		actor: stint.ActorID(fmt.Sprintf("relay-%.60s-%d-%.8s", host, os.Getpid(), random)),
	}
	defer r.all.Wait()
	again := time.NewTicker(discoverEvery)
	defer again.Stop()
	for {
		r.startAll(ctx)
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// A relay works on all shards, for each pair of shards in a goroutine of its own.
type relay struct {
	cluster *Cluster
	actor   stint.ActorID
	all     sync.WaitGroup
	running map[string]bool // by the name of the work
}

// startAll starts the work on shards that it has not begun.
func (r *relay) startAll(ctx context.Context) {
	names := r.cluster.known()
	targets := names
	if len(r.cluster.topology.Names()) == 0 {
		targets = r.discover(ctx, names)
	}
	for _, shard := range names {
		r.start(ctx, shard, func() { r.control(ctx, shard) })
		r.start(ctx, shard+" cancelled", func() { r.cancel(ctx, shard) })
		for _, to := range targets {
			if to != shard {
				r.start(ctx, shard+"/"+to, func() { r.reports(ctx, shard, to) })
			}
		}
	}
}

func (r *relay) start(ctx context.Context, name string, work func()) {
	if !r.running[name] && ctx.Err() == nil {
		r.running[name] = true
		r.all.Go(work)
	}
}

// discover returns the shards that tasks report to, besides those that are known. It connects to
// them, so that they are known from then on.
func (r *relay) discover(ctx context.Context, known []string) []string {
	all := slices.Clone(known)
	for _, shard := range known {
		store, err := r.cluster.Store(ctx, shard)
		if err != nil {
			continue // the work on the shard logs it
		}
		stats, err := store.Stats(ctx)
		if err != nil {
			continue
		}
		for _, action := range stats.Actions {
			to, ok := strings.CutPrefix(action.Action, reportAction)
			if !ok || slices.Contains(all, to) {
				continue
			}
			if _, err := r.cluster.topology.URL(to); err == nil {
				all = append(all, to)
			}
		}
	}
	return all
}

// repeated does work until ctx ends. What fails is logged, and done again after a pause.
func (r *relay) repeated(ctx context.Context, shard string, work func(Store) error) {
	outages := outage.New(r.cluster.logger, "a relay cannot work on a shard")
	for pause := pauseFirst; ctx.Err() == nil; {
		store, err := r.cluster.Store(ctx, shard)
		if err == nil {
			err = inShard(shard, work(store))
		}
		if err == nil {
			outages.Worked(ctx)
			pause = pauseFirst
			continue
		}
		if ctx.Err() != nil {
			return
		}
		outages.Failed(ctx, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, pauseMax)
	}
}

// control finishes the inserts of a shard.
func (r *relay) control(ctx context.Context, shard string) {
	r.repeated(ctx, shard, func(store Store) error {
		if err := r.cluster.claim(ctx, shard); err != nil {
			return err
		}
		// Only the verbs: these handlers hold no connection, so the pool is large enough for all.
		queue := struct{ worker.Queue }{store}
		w, err := worker.New(queue, worker.Options{Logger: safely.Warnings(r.cluster.logger)},
			worker.Handle(decisionAction, r.cluster.performDecision),
			worker.Handle(linkAction, r.cluster.performLink),
			worker.Handle(guardAction, func(
				ctx context.Context, task *worker.Task,
			) (worker.Result, error) {
				return r.cluster.performGuard(ctx, shard, task)
			}))
		if err != nil {
			return err
		}
		return w.Run(ctx)
	})
}

// reports reports from one shard to another one.
func (r *relay) reports(ctx context.Context, from, to string) {
	action := []string{reportAction + to}
	registered := false
	r.repeated(ctx, from, func(store Store) error {
		if !registered {
			if err := store.RegisterActor(ctx, r.actor, action); err != nil {
				return err
			}
			registered = true
		}
		return r.reportAll(ctx, store, to)
	})
}

// reportAll waits until tasks have to report, and reports until there are few left: as long as
// batches are full, several of them at once, since each waits for one shard or the other all the
// time. After a failure, it begins no further ones.
func (r *relay) reportAll(ctx context.Context, here Store, to string) error {
	action := []string{reportAction + to}
	owned, err := here.WaitToOwnTasks(ctx, r.actor, reportsMax, action, reportLease)
	all, going := errgroup.WithContext(ctx)
	all.SetLimit(reportsAtOnce)
	for err == nil && len(owned) > 0 {
		batch := owned
		all.Go(func() error { return r.report(ctx, here, to, batch) })
		owned = nil
		if len(batch) == reportsMax && going.Err() == nil {
			owned, err = here.OwnTasks(ctx, r.actor, reportsMax, action, reportLease)
		}
	}
	return errors.Join(err, all.Wait())
}

// report answers the placeholders of tasks that have ended, and returns the tasks that report; in
// halves, one after the other, if these have much to report. If the other shard is away, they are
// given back.
func (r *relay) report(
	ctx context.Context, here Store, to string, owned []stint.OwnedTask,
) error {
	batch, err := newReports(ctx, here, owned)
	if errors.Is(err, stint.ErrTooLarge) && len(owned) > 1 {
		half := len(owned) / 2 //nolint:mnd // as it says
		return errors.Join(r.report(ctx, here, to, owned[:half]),
			r.report(ctx, here, to, owned[half:]))
	}
	if err == nil {
		err = batch.deliver(ctx, here, r.cluster, to)
	}
	if ctx.Err() != nil { // the relay stops: others go on
		var cancel context.CancelFunc
		ctx, cancel = settling(ctx)
		defer cancel()
	}
	verdicts, failed := here.ReturnTasks(ctx, batch.returns(err != nil))
	for _, verdict := range verdicts { // one that is lost is somebody else's to report
		if verdict != nil && !errors.Is(verdict, stint.ErrInvalidToken) {
			failed = errors.Join(failed, verdict)
		}
	}
	return errors.Join(err, failed)
}
