package command

import (
	"context"
	"iter"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/top"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/worker"
)

// verbs are those that sub-commands need, of a store or of a client of a service.
type verbs interface {
	taskVerbs
	worker.Queue
	InsertTasks(ctx context.Context, tasks []stint.Task) error
	EnsureTasks(ctx context.Context, tasks []stint.Task) (existing []stint.TaskID, err error)
	InsertTasksFrom(ctx context.Context, tasks iter.Seq2[stint.Task, error]) (int64, error)
	Debounce(ctx context.Context, task stint.Task, quiet, atMost time.Duration) error
	AnswerTasks(
		ctx context.Context, actor stint.ActorID, answers []stint.Answer,
	) ([]error, error)
	limiter
	scheduler
}

// A scheduler has the verbs for schedules.
type scheduler interface {
	PutSchedules(ctx context.Context, schedules []stint.Schedule) error
	EnsureSchedules(ctx context.Context, schedules []stint.Schedule) error
	ListSchedules(ctx context.Context, names ...string) ([]stint.ScheduleInfo, error)
	PauseSchedules(ctx context.Context, names ...string) error
	ResumeSchedules(ctx context.Context, names ...string) error
	DeleteSchedules(ctx context.Context, names ...string) error
	TriggerSchedule(ctx context.Context, name string) (stint.TaskID, error)
}

// A limiter has the verbs that limit and pause actions.
type limiter interface {
	SetLimits(ctx context.Context, action string, limits stint.Limits) error
	ListLimits(ctx context.Context, actions ...string) ([]stint.ActionLimits, error)
	Pause(ctx context.Context, actions ...string) error
	Resume(ctx context.Context, actions ...string) error
	PauseKeys(ctx context.Context, action string, keys ...string) error
	ResumeKeys(ctx context.Context, action string, keys ...string) error
	SetWeights(ctx context.Context, action string, weights map[string]int) error
}

// taskVerbs are those for tasks that are there, which shards have, too.
type taskVerbs interface {
	changer
	top.Verbs
	History(ctx context.Context, id stint.TaskID) (stint.History, error)
	ListChanges(ctx context.Context, filter stint.ChangeFilter) (stint.ChangePage, error)
	Graph(ctx context.Context, id stint.TaskID) (*stint.Graph, error)
	WaitForTask(ctx context.Context, id stint.TaskID) (stint.TaskInfo, error)
	WaitForTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
	Close(ctx context.Context) error
}

// A changer has the verbs that change tasks of others.
type changer = bulk.Changer

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
