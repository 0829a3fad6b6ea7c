package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stint-tasks/stint"
)

// Workloads of W15: to drain under limits.
const (
	actionLimitWorkload = "W15-action"
	keyLimitWorkload    = "W15-keys"
	fairWorkload        = "W15-fair"
	paceWorkload        = "W15-rate"
)

// Variants of W15.
const (
	verbsUnlimited = "verbs, no limits"
	verbsLimited   = "verbs, 1,000 at once"
	loopUnlimited  = "worker, no limits"
	loopLimited    = "worker, 1,000 at once"

	noKeys          = "no keys"
	keysUnlimited   = "keys, no limits"
	onePerKey       = "1 per key"
	onePerKeyFew    = "1 per key, 1,000 wait"
	onePerKeyMany   = "1 per key, 100,000 wait"
	mixedUnlimited  = "one by one, no limits"
	mixedFair       = "one by one, fair"
	inRowsUnlimited = "50 in a row, no limits"
	inRowsFair      = "50 in a row, fair"
)

// limitWorkloads are those of W15.
func limitWorkloads() []workload {
	return []workload{
		{id: actionLimitWorkload, title: "drain below a limit of the action", tasks: 200_000},
		{id: keyLimitWorkload, title: "drain tasks with a key each", tasks: 100_000},
		{id: fairWorkload, title: "drain 1,000 keys, of which one has half", tasks: 100_000},
		{id: groupWorkload, title: "drain 1,000 keys of three actions", tasks: 100_000},
		{
			id: paceWorkload, title: "fetch 1,000 a second", lasts: 25 * time.Second,
			figures: []figure{{figurePace, unitRate}, {figureOff, unitPercent}},
		},
	}
}

// limitEntries are those of W15.
func limitEntries() []entry {
	atOnce := stint.Limits{Concurrency: atOnceMost}
	each := stint.Limits{ConcurrencyPerKey: 1}
	var entries []entry
	for _, d := range []limitedDrain{
		{actionLimitWorkload, verbsUnlimited, stint.Limits{}, nil, 0, drainTogether},
		{actionLimitWorkload, verbsLimited, atOnce, nil, 0, drainTogether},
		{actionLimitWorkload, loopUnlimited, stint.Limits{}, nil, 0, loopStint},
		{actionLimitWorkload, loopLimited, atOnce, nil, 0, loopStint},
		{keyLimitWorkload, noKeys, stint.Limits{}, nil, 0, drainStint},
		{keyLimitWorkload, keysUnlimited, stint.Limits{}, ownKey, 0, drainStint},
		{keyLimitWorkload, onePerKey, each, ownKey, 0, drainStint},
		{keyLimitWorkload, onePerKeyFew, each, ownKey, 0.01, drainAllButWaiting},
		{keyLimitWorkload, onePerKeyMany, each, ownKey, 1, drainAllButWaiting},
		{fairWorkload, mixedUnlimited, stint.Limits{}, skewedKey, 0, drainStint},
		{fairWorkload, mixedFair, stint.Limits{Fair: true}, skewedKey, 0, drainStint},
		{fairWorkload, inRowsUnlimited, stint.Limits{}, skewedRow, 0, drainStint},
		{fairWorkload, inRowsFair, stint.Limits{Fair: true}, skewedRow, 0, drainStint},
	} {
		entries = append(entries, entry{
			workload: d.workload, variant: d.variant, fill: d.fill, measure: d.measure,
		})
	}
	entries = append(entries, groupEntries()...)
	return append(entries, entry{workload: paceWorkload, fill: fillPace, measure: paceStint})
}

// A limitedDrain is a variant of W15 that drains.
type limitedDrain struct {
	workload, variant string
	limits            stint.Limits
	key               func(n int) string // of the task with a number; nil: none has a key
	waiting           float64            // tasks of a full key, as a share of the drained ones
	measure           func(ctx context.Context, r *run) error
}

// atOnceMost is how many tasks of an action are in progress at once.
const atOnceMost = 1000

// ownKey is a key that no other task has.
func ownKey(n int) string { return "key-" + strconv.Itoa(n) }

// skewedKeys is how many keys there are of which one has half of the tasks.
const skewedKeys = 1000

// skewedKey is the key of the task with a number where every second one has the same, and the other
// keys share the rest.
func skewedKey(n int) string {
	if n%2 == 0 {
		return ownKey(0)
	}
	return ownKey(1 + n/2%(skewedKeys-1))
}

// skewedRow is skewedKey where so many tasks with the same key come in a row.
func skewedRow(n int) string {
	const row = 50
	return skewedKey(n / row)
}

// fullKey is the key of the tasks that wait, and of the one that is owned meanwhile.
const fullKey = "full"

// waitingTasks is how many tasks of the full key there are, with the one that is owned.
func (d limitedDrain) waitingTasks(r *run) int {
	if d.waiting == 0 {
		return 0
	}
	return 1 + max(1, int(d.waiting*float64(r.Tasks)))
}

// fill sets the limits and inserts the tasks. Those of the full key are older than all others.
func (d limitedDrain) fill(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, inserters)
	if err != nil {
		return err
	}
	if d.limits != (stint.Limits{}) {
		if err := store.SetLimits(ctx, stintAction, d.limits); err != nil {
			return err
		}
	}
	if n := d.waitingTasks(r); n > 0 {
		full := func(int) string { return fullKey }
		if err := insertKeyed(ctx, r, store, r.Backlog, r.Backlog+n, full); err != nil {
			return err
		}
		const wholeRun = time.Hour
		owned, err := store.OwnTasks(ctx, "owner", 1, []string{stintAction}, wholeRun)
		if err != nil || len(owned) != 1 {
			return fmt.Errorf("owned %d tasks: %w", len(owned), err)
		}
	}
	return errors.Join(insertKeyed(ctx, r, store, 0, r.Backlog, d.key), store.Close(ctx))
}

// insertKeyed inserts the tasks with the numbers from from to to.
func insertKeyed(
	ctx context.Context, r *run, store *stint.Store, from, to int, key func(n int) string,
) error {
	if key == nil {
		return insertStintRange(ctx, r, store, from, to, nil)
	}
	return insertStintRange(ctx, r, store, from, to, func(task *stint.Task, n int) {
		task.Key = key(n)
	})
}

// drainTogether is drainStint with so few tasks a call that all drainers together own as many as
// the limit allows.
func drainTogether(ctx context.Context, r *run) error {
	return drainStintBy(ctx, r, r.Tasks, atOnceMost/drainers, []string{stintAction})
}

// drainAllButWaiting is drainStint where the tasks of the full key stay.
func drainAllButWaiting(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	before, err := unfinishedTasks(ctx, store)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		actions := []string{stintAction}
		return completeStint(ctx, store, r.Tasks, drainers, r.drainBatch(), actions)
	})
	if err != nil {
		return err
	}
	after, err := unfinishedTasks(ctx, store)
	if want := before - r.Tasks; err == nil && (after != want || r.report.Tasks != r.Tasks) {
		err = fmt.Errorf("%d tasks are unfinished instead of %d, %d were completed", after, want,
			r.report.Tasks)
	}
	return errors.Join(err, store.Close(ctx))
}

// unfinishedTasks is how many tasks are ready or in progress.
func unfinishedTasks(ctx context.Context, store *stint.Store) (int, error) {
	stats, err := store.Stats(ctx)
	unfinished := 0
	for _, action := range stats.Actions {
		unfinished += int(action.Ready + action.InProgress)
	}
	return unfinished, err
}
