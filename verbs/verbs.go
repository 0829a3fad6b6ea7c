// Package verbs names the verbs of a store by their use. [*stint.Store] has them all, and so has
// the client of a service; Merged of package shards has those of [Reader], [Changer], [Answerer],
// [Auditor], [Waiter] and [Follower]. Take one of them where any of these will do, or where tests
// have their own.
//
// The methods of stint.Store say what each verb does, its limits and its errors. Elsewhere a verb
// means the same, with these differences:
//
//	                Store               client of a service        Merged of shards
//	a change        is one transaction  is one transaction         is one on each shard
//	a refusal       undoes the call     undoes the call            undoes it on its shard
//	a lost answer   goes to the caller  has the call repeated,     goes to the caller, beside
//	                                    where it may be            what other shards did
//	who may call    roles               roles, then grants         roles, or grants, by shard
//	what is hidden  nothing             tasks beyond the grants,   as on the shard
//	                                    and Affected.Others
//	an author       as the caller says  after that of the service  as on the shard
//	a look          sees a database     sees a database            sees shards one by one,
//	                                                               but those that are away
package verbs

import (
	"context"
	"iter"
	"time"

	"github.com/stint-tasks/stint"
)

// An Inserter inserts tasks and dependencies.
type Inserter interface {
	InsertTasks(ctx context.Context, tasks []stint.Task) error
	InsertTasksFrom(ctx context.Context, tasks iter.Seq2[stint.Task, error]) (int64, error)
	EnsureTasks(ctx context.Context, tasks []stint.Task) (existing []stint.TaskID, err error)
	Debounce(ctx context.Context, task stint.Task, quiet, atMost time.Duration) error
	AddDependencies(ctx context.Context, dependencies []stint.Dependency) error
}

// A Reader tells of tasks, and of those who perform them.
type Reader interface {
	Stats(ctx context.Context) (stint.Stats, error)
	Problems(ctx context.Context, limit int) (stint.Problems, error)
	ListActors(ctx context.Context) ([]stint.ActorInfo, error)
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
	GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
	Explain(ctx context.Context, id stint.TaskID) (stint.Explanation, error)
	History(ctx context.Context, id stint.TaskID) (stint.History, error)
	Graph(ctx context.Context, id stint.TaskID) (*stint.Graph, error)
}

// A Waiter waits until tasks have finished.
type Waiter interface {
	WaitForTask(ctx context.Context, id stint.TaskID) (stint.TaskInfo, error)
	WaitForTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
}

// A Follower tells which tasks have ended.
type Follower interface {
	Ends(
		ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
	) (stint.EndPage, error)
}

// A Changer changes tasks of others. [stint.DryRun] is one that only says what would change.
type Changer interface {
	AbortTasks(ctx context.Context, ids []stint.TaskID, status string) (stint.Affected, error)
	RetryTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error)
	DeleteTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error)
	ChangeTasks(
		ctx context.Context, ids []stint.TaskID, to stint.TaskChanges,
	) (stint.Affected, error)
}

// An Answerer ends tasks that are performed outside.
type Answerer interface {
	AnswerTasks(
		ctx context.Context, actor stint.ActorID, answers []stint.Answer,
	) ([]error, error)
}

// An Auditor tells who has changed tasks and settings.
type Auditor interface {
	ListChanges(ctx context.Context, filter stint.ChangeFilter) (stint.ChangePage, error)
}

// A Recorder tells what has happened by the minute.
type Recorder interface {
	Minutes(ctx context.Context, action string) ([]stint.Minute, error)
}

// A Limiter limits and pauses actions and keys.
type Limiter interface {
	SetLimits(ctx context.Context, action string, limits stint.Limits) error
	ListLimits(ctx context.Context, actions ...string) ([]stint.ActionLimits, error)
	SetWeights(ctx context.Context, action string, weights map[string]int) error
	Pause(ctx context.Context, actions ...string) error
	Resume(ctx context.Context, actions ...string) error
	PauseKeys(ctx context.Context, action string, keys ...string) error
	ResumeKeys(ctx context.Context, action string, keys ...string) error
}

// A Scheduler keeps schedules.
type Scheduler interface {
	PutSchedules(ctx context.Context, schedules []stint.Schedule) error
	EnsureSchedules(ctx context.Context, schedules []stint.Schedule) error
	ListSchedules(ctx context.Context, names ...string) ([]stint.ScheduleInfo, error)
	PauseSchedules(ctx context.Context, names ...string) error
	ResumeSchedules(ctx context.Context, names ...string) error
	DeleteSchedules(ctx context.Context, names ...string) error
	TriggerSchedule(ctx context.Context, name string) (stint.TaskID, error)
}

// All are most verbs for everybody but owners, who have the verbs of Queue of package worker; it
// lacks Ends, Minutes, and those of no interface here.
type All interface {
	Inserter
	Reader
	Waiter
	Changer
	Answerer
	Auditor
	Limiter
	Scheduler
}

var (
	_ All      = (*stint.Store)(nil)
	_ Recorder = (*stint.Store)(nil)
	_ Changer  = (*stint.DryRun)(nil)
)
