package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

//go:embed sql/stint_oldest.sql
var stintOldestSQL string

// A mixedLoad is a variant of W11.
type mixedLoad struct {
	variant   string
	retention time.Duration
	networks  bool // a fifth of the tasks are those of chords
}

func mixedLoads() []mixedLoad {
	return []mixedLoad{
		{"5 s", 5 * time.Second, false},
		{"5 s, networks", 5 * time.Second, true},
		{"30 s", 30 * time.Second, false},
		{"30 s, networks", 30 * time.Second, true},
	}
}

// mixedLoadOf is the load of a variant, with no name if there is none.
func mixedLoadOf(variant string) mixedLoad {
	for _, load := range mixedLoads() {
		if load.variant == variant {
			return load
		}
	}
	return mixedLoad{}
}

const (
	// mixedWindow is how many tasks are unfinished at most. Inserters wait for workers, so that the
	// rate is what the machine gives and there is no backlog to grow.
	mixedWindow = 50_000

	// mixedBatch is how many tasks are inserted at a time, a chord with them if there are networks.
	mixedBatch   = 1505
	chordMembers = 300
)

// streamStintMixed inserts with one store and drains with another, in batches of all sizes, and
// tells how the tables grow meanwhile and how far pruning is behind in the end.
func streamStintMixed(ctx context.Context, r *run) error {
	load := mixedLoadOf(r.Variant)
	inserting, err := newStint(ctx, r, sustainInserters)
	if err != nil {
		return err
	}
	draining, err := newStint(ctx, r, len(mixedWorkers())+2)
	if err != nil {
		return err
	}
	err = r.sustain(ctx, steadyStream{
		batch: mixedBatch, window: mixedWindow, watch: r.lookOn,
		insert: func(ctx context.Context, from, to int) error {
			return load.insert(ctx, inserting, from, to, r.BodyBytes)
		},
		drain: func(ctx, live context.Context, done func(tasks int)) error {
			workers := mixedWorkers()
			return inParallel(ctx, len(workers), func(ctx context.Context, i int) error {
				return workers[i].drainWhile(ctx, live, draining, done)
			})
		},
	})
	if err == nil {
		err = r.reportSizes(ctx, load)
	}
	return errors.Join(err, inserting.Close(ctx), draining.Close(ctx))
}

// insert inserts the tasks with the numbers from from to to, of which a chord has the first ones.
// Every second chord has two callbacks, and so a join before and one behind them, which complete
// themselves.
func (l mixedLoad) insert(
	ctx context.Context, store *stint.Store, from, to, bodyBytes int,
) error {
	tasks := stintTasks(from, to, bodyBytes)
	if l.networks {
		callbacks := 1 + from/mixedBatch%2
		parts := make([]structures.Structure, chordMembers+callbacks)
		for i := range parts {
			parts[i] = structures.Task(tasks[i])
		}
		plan, err := structures.Build(fmt.Sprintf("chord-%d", from), structures.Chord(
			structures.Group(parts[:callbacks]...), parts[callbacks:]...))
		if err != nil {
			return err
		}
		if err := store.InsertTasks(ctx, plan.Tasks); err != nil {
			return err
		}
		tasks = tasks[len(parts):]
	}
	return store.InsertTasks(ctx, tasks)
}

// mixedWorkers own tasks in batches of all sizes. Every second one says something of each task when
// it returns them: then none shares a row with another from there on.
func mixedWorkers() []drainer {
	var workers []drainer
	for _, batch := range []int{1, 10, 500} {
		silent := drainer{actor: workerName(len(workers)), batch: batch}
		telling := drainer{actor: workerName(len(workers) + 1), batch: batch}
		telling.status = "done by " + string(telling.actor)
		workers = append(workers, silent, telling)
	}
	return workers
}

// reportSizes tells the sizes at a third and at the end, and how long tasks outlast their
// retention.
func (r *run) reportSizes(ctx context.Context, load mixedLoad) error {
	const mebibyte = 1 << 20
	all := r.report.Looks
	end := len(all) - 1
	third := slices.IndexFunc(all, func(l look) bool { return l.Seconds >= r.Lasts.Seconds()/3 })
	r.set(figureThird, float64(all[third].bytes())/mebibyte)
	r.set(figureEnd, float64(all[end].bytes())/mebibyte)
	var oldest float64
	if err := r.observer.QueryRow(ctx, stintOldestSQL).Scan(&oldest); err != nil {
		return err
	}
	r.set(figureBehind, max(0, oldest-load.retention.Seconds()))
	return nil
}
