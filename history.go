package stint

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/pg"
)

const keptTriesMax = 1000

// HistoryOptions say which ended tries of tasks a store keeps.
//
// The options belong to the store, not to the database: a store keeps the tries that it ends, by a
// return or, where it maintains, because their leases have expired. The shortest options among the
// stores that maintain decide how long they stay.
type HistoryOptions struct {
	// Tries is how many ended tries of a task are kept, the latest ones, for as long as the task is
	// in the store; up to 1,000, which is also how many a maintainer leaves that keeps none.
	// Default: 0, which keeps none and costs nothing.
	Tries int

	// Age is the age at which ended tries are dropped, even if the task is still there. Default: 0,
	// which keeps them as long as the task.
	Age time.Duration
}

func (o HistoryOptions) check() error {
	switch {
	case o.Tries < 0 || o.Tries > keptTriesMax:
		return argumentError("Options.History.Tries",
			fmt.Sprintf("must be between 0 and %d", keptTriesMax))
	case o.Age < 0:
		return argumentError("Options.History.Age", "must not be negative")
	}
	return nil
}

// A TryOutcome says how a try of a task ended.
type TryOutcome string

// The outcomes of tries.
const (
	TryCompleted TryOutcome = "completed" // its owner returned the task as completed
	TryAborted   TryOutcome = "aborted"   // its owner returned the task as aborted
	TryReturned  TryOutcome = "returned"  // its owner returned the task as pending
	TryReleased  TryOutcome = "released"  // so, too, and the try did not count
	TryExpired   TryOutcome = "expired"   // its lease expired, or its owner died
	TryCancelled TryOutcome = "cancelled" // somebody aborted the task meanwhile
	TryOverdue   TryOutcome = "overdue"   // the Deadline of the task passed meanwhile
)

// tryOutcomes are in the order of their numbers in the database.
func tryOutcomes() []TryOutcome {
	return []TryOutcome{
		TryCompleted, TryAborted, TryReturned, TryReleased, TryExpired, TryCancelled, TryOverdue,
	}
}

// A Try is one fetch of a task that has ended.
type Try struct {
	// Number is the number of the fetch, beginning with 1. The count begins anew when the task
	// is retried, and a released try shares its number with the next one. An answered task
	// ([External]) was not fetched: 0.
	Number int

	Outcome TryOutcome
	Actor   ActorID // who owned the task

	// OwnedAt is when the task was fetched, zero where only the end is known: of a try that ended
	// the task, but not by its owner. EndedAt is when the try ended, both on the database's clock.
	OwnedAt, EndedAt time.Time

	// Status is the last text for people by then: of an owner, of who aborted the task, or of the
	// store. Of a try that expired, or was released without a text, it may be the try before's.
	Status string
	Log    string // the last lines of its log: [Return.Log]
}

// A History is what became of a task's tries.
type History struct {
	Tries []Try      // those that have ended, the latest last
	Steps []StepInfo // those that are recorded, and that the next try need not do
}

// History returns the ended tries of a task: those that stores keep ([Options.History]), and the
// one that ended the task, which is known in any case. A try whose lease has expired, and whose
// late owner then extended or returned it after all, goes on, or is as its owner said. If there is
// no such task, the error is [ErrTaskNotFound], in a [*TaskError].
func (s *Store) History(ctx context.Context, id TaskID) (History, error) {
	history, err := s.findHistory(ctx, id)
	if err != nil {
		return History{}, fmt.Errorf("history: %w", err)
	}
	return history, nil
}

func (s *Store) findHistory(ctx context.Context, id TaskID) (History, error) {
	var history History
	if err := checkText("task ID", string(id), idBytesMax); err != nil {
		return history, err
	}
	found := false
	err := s.db.Run(ctx, pg.Step{
		Name: "list_tries", Args: []any{string(id)},
		Read: func(rows pgx.Rows) (err error) {
			history.Tries, found, err = readTries(rows)
			return err
		},
	}, stepsOf(id, &history.Steps))
	switch {
	case err != nil:
		return history, err
	case !found:
		return history, taskError([]TaskID{id}, ErrTaskNotFound)
	}
	return history, nil
}

// readTries reads the tries of a task. A task without any has one row of nulls.
func readTries(rows pgx.Rows) (tries []Try, found bool, err error) {
	for rows.Next() {
		var number *int
		var outcome *int16
		var actor, status, log *string
		var ownedAt, endedAt *time.Time
		err := rows.Scan(&number, &outcome, &actor, &ownedAt, &endedAt, &status, &log)
		if err != nil {
			return nil, false, err
		}
		if found = true; number == nil {
			continue
		}
		tries = append(tries, Try{
			Number: *number, Outcome: tryOutcomes()[*outcome], Actor: ActorID(pg.OrZero(actor)),
			OwnedAt: pg.OrZero(ownedAt), EndedAt: *endedAt,
			Status: pg.OrZero(status), Log: pg.OrZero(log),
		})
	}
	return tries, found, rows.Err()
}

// An Author is somebody who changes tasks or settings, for [WithAuthor].
type Author struct {
	Name   string // cut at 255 bytes
	Reason string // why; cut at 1,024 bytes
}

// WithAuthor returns a context in which these verbs note who has changed what, in the transaction
// of the change, for [Store.ListChanges]: those of [DryRun], AnswerTasks, SetLimits, SetWeights,
// Pause, Resume, PauseKeys, ResumeKeys, and those that change or trigger schedules. A call that
// changes nothing notes nothing. The notes stay for [Retention.Changes], also if the tasks are
// gone. Without an author nothing is noted, and nothing costs more. Who calls is believed, but a
// service puts the name of its caller before that of the client's context.
func WithAuthor(ctx context.Context, author Author) context.Context {
	return changes.With(ctx, changes.Author(author))
}

// A Change is what somebody has done to tasks of one action, or to settings.
type Change struct {
	At         time.Time // on the database's clock
	By, Reason string    // of the [Author]
	Verb       string    // the name of the method: AbortTasks
	Action     string    // of the tasks, or what was limited or paused; empty: schedules

	// Items is how many tasks, keys or schedules were changed, 1 for an action as a whole. Names
	// are the first ten of them.
	Items int
	Names []string
	// Others is how many other tasks were changed with the tasks. If a call changes tasks of
	// several actions, one of its changes tells of all the others.
	Others int
	Detail string // what was set, for people to read
}

// A ChangeFilter selects changes.
type ChangeFilter struct {
	ID      TaskID   // of tasks with this ID, also if they are gone; default: all changes
	Actions []string // of these actions, up to 10,000, unless ID is set; default: all
	After   Cursor   // [ChangePage.Next] of the page before
	Limit   int      // how many to return at most, up to 1,000; default: 100
}

// A ChangePage is an answer of [Store.ListChanges].
type ChangePage struct {
	Changes []Change
	Next    Cursor // [ChangeFilter.After] for the next page; empty if there is none
}

const changesMax = 1000

// ListChanges lists what was changed by authors ([WithAuthor]), the newest first. For a page it
// looks at 10,000 changes at most, so one of few actions may have fewer than Limit, or none.
func (s *Store) ListChanges(
	ctx context.Context, filter ChangeFilter,
) (page ChangePage, err error) {
	from, ok := changes.ParsePlace(string(filter.After))
	limit := cmp.Or(filter.Limit, listedTasksDefault)
	var found []changes.Change
	var next string
	switch err = checkText("task ID", cmp.Or(string(filter.ID), "all"), idBytesMax); {
	case err != nil:
	case !ok:
		err = argumentError("ChangeFilter.After", "must be the Next of a page")
	case limit < 0 || limit > changesMax:
		err = argumentError("ChangeFilter.Limit", "must be 0 to 1000")
	case len(filter.Actions) > actionsMax:
		err = tooLarge("ChangeFilter.Actions", len(filter.Actions), actionsMax)
	case filter.ID == "":
		found, next, err = changes.List(ctx, s.db, filter.Actions, from, limit)
	default:
		found, next, err = changes.OfTask(ctx, s.db, string(filter.ID), from, limit)
	}
	if err != nil {
		return ChangePage{}, fmt.Errorf("list changes: %w", err)
	}
	for _, c := range found {
		page.Changes = append(page.Changes, Change(c))
	}
	page.Next = Cursor(next)
	return page, nil
}
