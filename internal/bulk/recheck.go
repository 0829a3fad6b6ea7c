package bulk

import (
	"context"
	"errors"
	"slices"

	"github.com/stint-tasks/stint"
)

// readAtOnce is how many tasks are read at once, without their bodies.
const readAtOnce = 1000

// Still returns the IDs of those tasks that are in one of the states, and were inserted and
// have finished at the times that tasks has; of a task in tasks only the ID, these times and the
// state matter. One that was seen in another state than in progress must not have begun since: its
// author may not have meant to interrupt it. With no state that does not matter.
// The store is that of the transaction that will change the tasks.
func Still(
	ctx context.Context, store *stint.Store, states []stint.State, tasks []stint.TaskInfo,
) (ids []stint.TaskID, err error) {
	for some := range slices.Chunk(tasks, readAtOnce) {
		still, err := stillOfSome(ctx, store, states, some)
		if err != nil {
			return nil, err
		}
		ids = append(ids, still...)
	}
	return ids, nil
}

func stillOfSome(
	ctx context.Context, store *stint.Store, states []stint.State, tasks []stint.TaskInfo,
) ([]stint.TaskID, error) {
	found := make(map[stint.TaskID]*stint.TaskInfo, len(tasks))
	ids := make([]stint.TaskID, len(tasks))
	for i := range tasks {
		found[tasks[i].ID], ids[i] = &tasks[i], tasks[i].ID
	}
	infos, _, err := store.Remote().GetSmallTasks(ctx, ids, 0)
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) { // of some; the others are there
		return nil, err
	}
	ids = nil
	for _, info := range infos {
		was := found[info.ID]
		hasBegun := info.State == stint.StateInProgress && was.State != "" &&
			was.State != stint.StateInProgress
		if slices.Contains(states, info.State) && info.InsertedAt.Equal(was.InsertedAt) &&
			info.FinishedAt.Equal(was.FinishedAt) && !hasBegun {
			ids = append(ids, info.ID)
		}
	}
	return ids, nil
}
