package bulk

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// A SeenChange changes those tasks that still are as they were seen, all in one transaction, or
// only says what that would do.
type SeenChange func(
	ctx context.Context, states []stint.State, tasks []Task, dryRun bool, change Change,
) (stint.Affected, error)

type (
	// A seer changes tasks as they were seen, as clients of services do, and shards.
	seer interface {
		AsSeen(states []stint.State, seen []stint.TaskInfo, dryRun bool) verbs.Changer
	}
	// A dryRunner is a store on a database.
	dryRunner interface {
		Remote() *stint.Remote
		DryRun() *stint.DryRun
	}
)

// AsSeen returns how a store changes tasks as they were seen; nil if it cannot say before what it
// would do.
func AsSeen(store any) SeenChange {
	switch store := store.(type) {
	case seer:
		return func(
			ctx context.Context, states []stint.State, tasks []Task, dryRun bool, change Change,
		) (stint.Affected, error) {
			return change(store.AsSeen(states, Infos(tasks), dryRun), ctx, IDs(tasks))
		}
	case dryRunner:
		return func(
			ctx context.Context, states []stint.State, tasks []Task, dryRun bool, change Change,
		) (affected stint.Affected, err error) {
			err = store.Remote().Transact(ctx, func(within *stint.Store) error {
				var by verbs.Changer = within
				if dryRun {
					by = within.DryRun()
				}
				affected, err = Unchanged(ctx, within, by, states, tasks, change)
				return err
			})
			return affected, err
		}
	}
	return nil
}
