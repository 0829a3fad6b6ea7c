package main

import (
	"context"
	"errors"

	"github.com/stint-tasks/stint"
)

// groupWorkload is W15-fair with the tasks of three actions, whose keys take turns in each or in
// all of them together.
const groupWorkload = "W15-group"

// Variants of it.
const (
	groupUnlimited = "three actions, no limits"
	groupAlone     = "three actions, fair"
	groupTogether  = "three actions, fair together"
)

// groupEntries are those of groupWorkload.
func groupEntries() []entry {
	var entries []entry
	for _, v := range []struct {
		variant string
		limits  stint.Limits
	}{
		{groupUnlimited, stint.Limits{}},
		{groupAlone, stint.Limits{Fair: true}},
		{groupTogether, stint.Limits{Fair: true, FairGroup: "tenants"}},
	} {
		entries = append(entries, entry{
			workload: groupWorkload, variant: v.variant, fill: fillGroup(v.limits),
			measure: func(ctx context.Context, r *run) error {
				return drainStintOf(ctx, r, r.Tasks, groupActions())
			},
		})
	}
	return entries
}

func groupActions() []string { return []string{stintAction, "second", "third"} }

// fillGroup sets the limits of the actions and inserts the tasks, 50 with the same key and action
// in a row.
func fillGroup(limits stint.Limits) func(ctx context.Context, r *run) error {
	return func(ctx context.Context, r *run) error {
		store, err := newStint(ctx, r, inserters)
		if err != nil {
			return err
		}
		actions := groupActions()
		for _, action := range actions {
			if err := store.SetLimits(ctx, action, limits); err != nil {
				return err
			}
		}
		err = insertStintRange(ctx, r, store, 0, r.Backlog, func(task *stint.Task, n int) {
			const row = 50
			task.Key, task.Action = skewedRow(n), actions[n/row%len(actions)]
		})
		return errors.Join(err, store.Close(ctx))
	}
}
