package branch

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// start performs start-export: it compares the commit with what the destination has, and creates a
// task for each difference. They become real together with the return of this task, or, if it has
// passed to another owner, not at all.
//
// done-export cannot have ended before, since it waits for this task. So it can be made to wait for
// the new tasks as well.
func (e *Exporter) start(_ context.Context, task *ownedTask) (record, error) {
	to, err := e.openDestination(task.body.Branch)
	if err != nil {
		return nil, err
	}
	defer to.close()
	// No other export is under way, but late workers of earlier ones may still be. They are shut
	// out first, so that what is found stays so until tasks of this export change it.
	export := task.body
	if export.Fence, err = to.begin(export.Export); err != nil {
		return nil, err
	}
	found, err := to.list()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, tasks *stint.Store) error {
		if err := tasks.HoldOwnership(ctx, []stint.OwnedTask{task.OwnedTask}); err != nil {
			return err
		}
		tree, err := readTree(ctx, tx, task.body.Branch, task.body.Commit)
		if err != nil {
			return err
		}
		prefixes, err := readPrefixes(ctx, tx, task.body.Branch)
		if err != nil {
			return err
		}
		plan := planExport(export, tree, found, prefixes)
		_, err = tx.Exec(ctx, statement("plan_export"),
			task.body.Branch, task.body.Export, len(plan))
		if err != nil {
			return err
		}
		return tasks.InsertTasks(ctx, plan)
	}, nil
}
