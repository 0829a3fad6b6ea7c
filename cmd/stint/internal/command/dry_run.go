package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/verbs"
)

// changer returns what makes the change, or only says what it would do.
func (c *change) changer(db *database) (verbs.Changer, error) {
	switch {
	case !c.dryRun:
		return db.tasks(), nil
	case db.shards != nil:
		return nil, said(errInput, "--dry-run asks one database or service, and does not follow "+
			"tasks to other shards: give the --database-url or --server of one")
	case db.client != nil:
		return db.client.DryRun(), nil
	}
	return db.direct.DryRun(), nil
}

// tryFiltered says what the change of the tasks found would do.
func (p *program) tryFiltered(
	ctx context.Context, c *change, db *database, filter stint.Filter, tasks []bulk.Task,
) error {
	would, err := c.try(ctx, db, filter, tasks)
	if err != nil {
		return err
	}
	err = p.printFiltered(c, &would, len(tasks))
	if would.refusal != nil {
		left := display.Count(int64(would.left(len(tasks))), "task")
		err = errors.Join(err, said(errPartly, "would leave out %s: %v", left, would.refusal))
	}
	return err
}

// try says what the change of the tasks found would do.
func (c *change) try(
	ctx context.Context, db *database, filter stint.Filter, tasks []bulk.Task,
) (outcome, error) {
	trial := *c
	trial.dryRun = true
	return trial.inBatches(ctx, db, filter, tasks, func(int) {})
}

// question asks whether to change the tasks found, which are where it says. Of few it says what
// would change with them, and what follows.
func (c *change) question(
	ctx context.Context, db *database, filter stint.Filter, tasks []bulk.Task, where string,
) string {
	count := display.Count(int64(len(tasks)), "task")
	if len(tasks) <= batchTasksMax {
		if would, err := c.try(ctx, db, filter, tasks); err == nil {
			count, where = countOf(would.Affected), where+follows(would.Affected)
		}
	}
	return fmt.Sprintf("%s %s %s", c.verb, count, where)
}
