package main

import (
	"context"
	"fmt"

	"github.com/stint-tasks/stint/worker"
)

// historyWorkload is to drain tasks with a worker while the history of their tries is kept, or not.
const historyWorkload = "W17"

// A historyLoad is a variant of W17.
type historyLoad struct {
	variant string
	keeps   bool
	logs    bool // each try logs a line
	fails   bool // the first try of each task fails
}

func historyLoads() []historyLoad {
	return []historyLoad{
		{variant: "no history"},
		{variant: "history", keeps: true},
		{variant: "history, a line each", keeps: true, logs: true},
		{variant: "each fails once, no history", fails: true},
		{variant: "each fails once, history", fails: true, keeps: true},
	}
}

func historyEntries() []entry {
	var entries []entry
	for _, load := range historyLoads() {
		entries = append(entries, entry{
			workload: historyWorkload, variant: load.variant, fill: fillStint,
			measure: func(ctx context.Context, r *run) error {
				return drainStintTries(ctx, r, load)
			},
		})
	}
	return entries
}

// historyLoadOf is that of a variant.
func historyLoadOf(variant string) historyLoad {
	for _, load := range historyLoads() {
		if load.variant == variant {
			return load
		}
	}
	return historyLoad{}
}

// drainStintTries drains with a worker whose handler logs and fails as the load says.
func drainStintTries(ctx context.Context, r *run, load historyLoad) error {
	perform := func(_ context.Context, task *worker.Task) error {
		if load.logs {
			task.Logger().Info("this is what a handler says")
		}
		if load.fails && task.Try == 1 {
			return fmt.Errorf("not at the first try: %w", worker.RetryAfter(0))
		}
		return nil
	}
	return loopStintWith(ctx, r, []string{stintAction}, perform)
}
