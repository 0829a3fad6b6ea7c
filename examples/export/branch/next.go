package branch

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// next performs next-export: it begins an export. The one before has ended, since either this task
// has waited for its done-export, or done-export was finished when this task was inserted.
//
// From this commit on there is a done-export that is unfinished, and every request made later waits
// for it. So done-export is made here, together with start-export. If start-export made it, a
// request in between would find the old one finished, and begin a second export.
//
// The two have the names of those of the last export. These are finished, and go.
func (e *Exporter) next(_ context.Context, task *ownedTask) (record, error) {
	return func(ctx context.Context, tx pgx.Tx, tasks *stint.Store) error {
		branch := task.body.Branch
		// Before the task, which is the order that requests lock them in.
		if _, err := lockBranch(ctx, tx, branch); err != nil {
			return err
		}
		if err := tasks.HoldOwnership(ctx, []stint.OwnedTask{task.OwnedTask}); err != nil {
			return err
		}
		export, commit, err := beginExport(ctx, tx, branch, task.body.Request)
		if err != nil {
			return err
		}
		task.body.Export = export
		start := stint.Task{
			ID: startID(branch), Action: actionStart, Priority: priorityCycle,
			Body: body{Branch: branch, Export: export, Commit: commit}.bytes(),
		}
		done := stint.Task{
			ID: doneID(branch), Action: stint.Spontaneous, After: []stint.TaskID{start.ID},
			// A copy that fails for good does not end the export: the other copies are still under
			// way. So done-export waits for all of them, and completes anyway.
			OnAbort: stint.RunAnyway,
		}
		return tasks.ReplaceTasks(ctx, []stint.Task{start, done})
	}, nil
}

// beginExport gives an export its number and returns it with the newest commit that was asked for.
func beginExport(
	ctx context.Context, tx pgx.Tx, branch string, requested int64,
) (export, commit int64, err error) {
	err = tx.QueryRow(ctx, statement("count_export"), branch).Scan(&export)
	if err != nil {
		return 0, 0, err
	}
	err = tx.QueryRow(ctx, statement("begin_export"), branch, export, requested).Scan(&commit)
	return export, commit, err
}
