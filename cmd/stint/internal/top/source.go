package top

import (
	"context"
	"errors"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// A Snapshot is what was seen at one time.
type Snapshot struct {
	// Now is the time on the database's clock.
	Now time.Time

	Stats    stint.Stats
	Problems stint.Problems
	Actors   []stint.ActorInfo

	// Found are tasks whose IDs begin with the prefix that was asked for.
	Found []stint.TaskInfo

	// Partly says that whoever looks may not see all tasks: what he may not is missing.
	Partly bool

	// Away says what is missing, since it could not be reached.
	Away error
}

// Details are what is known of one task.
type Details struct {
	Task        stint.TaskInfo
	Explanation stint.Explanation
}

// A Source shows tasks, and changes them.
type Source interface {
	// Read reads a snapshot of all tasks and, unless prefix is empty, finds tasks whose IDs begin
	// with it.
	Read(ctx context.Context, prefix string) (Snapshot, error)

	// Open reads one task. It may take from known what it need not ask for again.
	Open(ctx context.Context, id stint.TaskID, known *Details) (*Details, error)

	// Abort aborts a task, with everything that depends on it.
	Abort(ctx context.Context, id stint.TaskID) error // errUnchanged if it has finished

	// Retry reopens a finished task.
	Retry(ctx context.Context, id stint.TaskID) error // errUnchanged if it has not finished
}

// Verbs are those of a store, or of a client of a service.
type Verbs interface {
	verbs.Reader
	verbs.Changer
}

// A Store is a store, or a client of a service, as a source.
type Store struct {
	Verbs

	// Clock is the time on the database's clock.
	Clock func(ctx context.Context) (time.Time, error)

	// ReadsAll reports whether whoever looks may see all tasks; nil: he may.
	ReadsAll func(ctx context.Context) (bool, error)
}

const (
	problemTasksMax = 100
	foundTasksMax   = 100
)

// Read implements [Source]. The verbs take the same time however many tasks there are.
func (s Store) Read(ctx context.Context, prefix string) (snapshot Snapshot, err error) {
	if snapshot.Now, err = s.Clock(ctx); err != nil {
		return snapshot, err
	}
	if s.ReadsAll != nil {
		all, err := s.ReadsAll(ctx)
		if err != nil {
			return snapshot, err
		}
		snapshot.Partly = !all
	}
	if snapshot.Stats, err = s.Stats(ctx); err != nil {
		return snapshot, err
	}
	if snapshot.Problems, err = s.Problems(ctx, problemTasksMax); err != nil {
		return snapshot, err
	}
	if snapshot.Actors, err = s.ListActors(ctx); err != nil || prefix == "" {
		return snapshot, err
	}
	page, err := s.ListTasks(ctx, stint.Filter{IDPrefix: prefix, Limit: foundTasksMax})
	snapshot.Found = page.Tasks
	return snapshot, err
}

// Open implements [Source]. It asks once for bodies and results, which may be large, unless the
// task
// waits: Debounce gives it another body.
func (s Store) Open(
	ctx context.Context, id stint.TaskID, known *Details,
) (*Details, error) {
	explanation, err := s.Explain(ctx, id)
	if err != nil {
		return nil, err
	}
	task := explanation.Task
	settled := task.State == stint.StateInProgress || !task.FinishedAt.IsZero()
	if known != nil && settled && known.Task.State == task.State &&
		known.Task.InsertedAt.Equal(task.InsertedAt) &&
		known.Task.FinishedAt.Equal(task.FinishedAt) {
		task.Body, task.Result = known.Task.Body, known.Task.Result
		return &Details{task, explanation}, nil
	}
	tasks, err := s.GetTasks(ctx, []stint.TaskID{id})
	if err != nil {
		return nil, err
	}
	return &Details{tasks[0], explanation}, nil
}

// Abort implements [Source].
func (s Store) Abort(ctx context.Context, id stint.TaskID) error {
	return changed(s.AbortTasks(ctx, []stint.TaskID{id}, ""))
}

// Retry implements [Source].
func (s Store) Retry(ctx context.Context, id stint.TaskID) error {
	return changed(s.RetryTasks(ctx, []stint.TaskID{id}))
}

// errUnchanged says that somebody else was faster.
var errUnchanged = errors.New("nothing was changed: the task is in another state by now")

func changed(affected stint.Affected, err error) error {
	if err == nil && len(affected.Tasks) == 0 {
		return errUnchanged
	}
	return err
}
