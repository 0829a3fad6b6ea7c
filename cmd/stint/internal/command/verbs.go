package command

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/verbs"
	"github.com/stint-tasks/stint/worker"
)

// allVerbs are those that sub-commands need, of a store or of a client of a service.
type allVerbs interface {
	verbs.All
	worker.Queue
	Close(ctx context.Context) error
}

// taskVerbs are those for tasks that are there, which shards have, too.
type taskVerbs interface {
	verbs.Changer
	verbs.Reader
	verbs.Waiter
	verbs.Auditor
	Close(ctx context.Context) error
}

// task returns a task, with its body and result.
func (db *database) task(ctx context.Context, id stint.TaskID) (stint.TaskInfo, error) {
	tasks, err := db.tasks().GetTasks(ctx, []stint.TaskID{id})
	if err != nil {
		return stint.TaskInfo{}, err
	}
	return tasks[0], nil
}

// prune deletes tasks that finished long ago, or only says how many there are.
func (db *database) prune(ctx context.Context, keep stint.Retention, dryRun bool) (int64, error) {
	switch {
	case db.client != nil:
		return db.client.PruneTasks(ctx, keep, dryRun)
	case dryRun:
		return db.pruneDry(ctx)
	}
	return db.direct.Prune(ctx) // whose retention it is
}

// check looks for what is wrong.
func (db *database) check(ctx context.Context) ([]doctor.Finding, error) {
	if db.shards != nil {
		return db.shards.check(ctx)
	}
	if db.client == nil {
		return doctor.Examine(ctx, db.pool, db.direct, db.direct.Schema())
	}
	found, err := db.client.Check(ctx)
	var findings []doctor.Finding
	for _, f := range found {
		findings = append(findings, doctor.Finding{
			Severity: doctor.Severity(f.Severity), Topic: f.Topic, ID: f.ID, Text: f.Text,
		})
	}
	return findings, err
}
