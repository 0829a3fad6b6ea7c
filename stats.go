package stint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/counts"
	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

// Stats is how many tasks there are.
type Stats struct {
	// Actions are the actions that tasks have, or had lately, and those that have limits or are
	// paused, in the order of their names.
	Actions []ActionStats

	// Estimated are the states that so many tasks are in that some counts are estimates.
	// EstimatedAt is when these were estimated, on the database's clock, which is up to a second
	// before the call; zero if none is.
	Estimated   []State
	EstimatedAt time.Time

	// Copy says why the database is a copy, in which nothing is handed out ([ErrCopy]); empty if it
	// is none.
	Copy string

	// PruningBehind is how much longer than their retention finished tasks stay at most, as
	// reported by the stores that maintain: the delay of the last pruned tasks plus the time since.
	// Up to half a minute is usual, and it grows as long as no store maintains. It is zero if no
	// store ever did. Tasks that stay because somebody may ask for them do not count.
	PruningBehind time.Duration
}

// ActionStats is how many tasks there are with an action, by their states.
type ActionStats struct {
	Action     string
	Blocked    int64
	Scheduled  int64
	Ready      int64
	InProgress int64
	Completed  int64
	Aborted    int64
	Skipped    int64

	// OldestReady is for how long the ready task has been ready that has waited longest in the
	// queue of its priority; zero if none is ready.
	OldestReady time.Duration

	// Tries is how many tasks were fetched so far, Retries how many of these were not first
	// tries: two calls give the rate. Both only grow, until nobody has asked for the action for a
	// week; then they restart. Each store adds its counts once a second, and when it is closed; the
	// last fetches of a process that died are missing.
	Tries, Retries int64

	// Lost is how many of the aborted tasks have [CauseLost], among the last 1,000 of all actions.
	Lost int64

	// Parked is how many of the ready tasks wait for capacity below a limit of their key, for the
	// end of its pause, or for its turn.
	Parked int64
	// Limited says that the action has limits, Concurrency how many tasks these let be in progress
	// at once; 0: any number. [Store.ListLimits] tells more.
	Limited     bool
	Concurrency int
	// Paused says that the action is paused. Pauses of keys do not count.
	Paused bool
}

// ByState yields the counts with their states, in the order of a task's life.
func (a ActionStats) ByState() iter.Seq2[State, int64] {
	return func(yield func(State, int64) bool) {
		for _, state := range []State{
			StateBlocked, StateScheduled, StateReady, StateInProgress, StateCompleted, StateAborted,
			StateSkipped,
		} {
			if !yield(state, *a.of(state)) {
				return
			}
		}
	}
}

// Stats counts the tasks in the store, by action and state, in constant time, so that a monitor may
// ask every second. In each state it counts up to 1,000 rows exactly, where a row is a task or a
// span of up to 1,000 tasks that were inserted, fetched or returned together; beyond that it
// estimates the number from a sample of the same pages each time, and says so, and of when. The
// sample has all pages of a table of up to 4 MiB, so that some ten thousand rows are counted; how
// many of more rows there are it says to some percent. The store keeps estimates for a second. It
// counts ready tasks per action, so that a few are never lost among many; if there are more than
// 1,000 pairs of action and priority, some may be missing. Parked tasks of a priority are counted
// apart from its other ready ones, as of one more priority. Of more than 1,000 actions with limits
// or pauses, some are told as if they had none. The counts of different states are not as of one
// instant. [CountReady] costs less.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	counted, err := s.counter.Count(ctx, s.db)
	if err != nil {
		return Stats{}, fmt.Errorf("stats: %w", err)
	}
	actions := map[string]*ActionStats{}
	of := func(action string) *ActionStats {
		if actions[action] == nil {
			tries, is := counted.Tries[action], counted.Limited[action]
			actions[action] = &ActionStats{
				Action: action, OldestReady: counted.Oldest[action], Tries: tries.Tries,
				Retries: tries.Retries, Lost: counted.Lost[action],
				Parked: counted.Parked[action], Limited: is.Limited,
				Concurrency: is.Concurrency, Paused: is.Paused,
			}
		}
		return actions[action]
	}
	for by, tasks := range counted.Tasks {
		*of(by.Action).of(stateOf(by.State)) = tasks
	}
	for action := range counted.Tries {
		of(action)
	}
	for action := range counted.Limited {
		of(action)
	}
	for action := range counted.Lost {
		of(action)
	}
	stats := Stats{
		PruningBehind: counted.Behind, EstimatedAt: counted.EstimatedAt, Copy: counted.Copy,
	}
	for _, number := range counted.Many {
		stats.Estimated = append(stats.Estimated, stateOf(number))
	}
	for _, action := range slices.Sorted(maps.Keys(actions)) {
		stats.Actions = append(stats.Actions, *actions[action])
	}
	return stats, nil
}

// CountReady counts the ready tasks with an action, parked ones included, for programs that ask
// often, such as those that start and stop workers. Of more than 1,000 rows, as [Store.Stats]
// defines them, it counts only the first, and reports that there are more. An action that no task
// can have is refused with an [*ArgumentError].
func CountReady(
	ctx context.Context, store *Store, action string,
) (tasks int64, more bool, err error) {
	if err := checkText("action", action, actionBytesMax); err != nil {
		return 0, false, fmt.Errorf("count ready tasks: %w", err)
	}
	tasks, more, err = counts.Action(ctx, store.db, action)
	if err != nil {
		return 0, false, fmt.Errorf("count ready tasks: %w", err)
	}
	return tasks, more, nil
}

// of is the count of a state.
func (a *ActionStats) of(state State) *int64 {
	switch state {
	case StateBlocked:
		return &a.Blocked
	case StateScheduled:
		return &a.Scheduled
	case StateReady:
		return &a.Ready
	case StateInProgress:
		return &a.InProgress
	case StateCompleted:
		return &a.Completed
	case StateSkipped:
		return &a.Skipped
	default:
		return &a.Aborted
	}
}

// Problems are the tasks to look at first when something is wrong.
type Problems struct {
	// Slow are tasks in progress, those that were fetched longest ago first.
	Slow []TaskInfo
	// Failing are pending tasks that their owners gave back or lost, the most often tried first.
	// Blocked tasks are left out.
	Failing []TaskInfo
	// Failed are tasks that were aborted by their owners, because their tries were exhausted,
	// because their Deadline passed, or because they lost several owners; the latest first.
	Failed []TaskInfo
	// Unwatched are tasks in progress of owners whose process nobody watches, those first whose
	// leases expire last: the owner is not registered ([Store.RegisterActor]), or no longer, or its
	// process is gone and no store maintains. If it is gone, they stay with it for so long.
	Unwatched []TaskInfo
	// Errors are up to 100 groups of failing and failed tasks by what their last owners said, the
	// largest first. Of each kind they count up to 10,000 tasks, whatever the limit: ErrorsCut says
	// that there may be more, older ones or such as were tried less often. To a caller of a service
	// who may not list all tasks it always says so.
	Errors    []ErrorGroup
	ErrorsCut bool
}

// An ErrorGroup is tasks of an action that failed alike: the first lines of what their last owners
// said are the same, but for numbers, also hexadecimal ones, and what is in quotes.
type ErrorGroup struct {
	Action  string
	Tasks   int    // how many
	Error   string // the first line of what was said of the latest one, up to 500 characters
	Example TaskID // that task
}

const (
	errorGroupsMax   = 100
	errorsCountedMax = 10_000
)

// Problems returns up to limit tasks of each kind, as of one instant, without their bodies and
// results. The limit is between 1 and 10,000. It reads all leases twice, of which there is one for
// each call of OwnTasks whose tasks are in progress; otherwise it takes the same time however many
// tasks there are.
func (s *Store) Problems(ctx context.Context, limit int) (Problems, error) {
	trouble, err := s.problems(ctx, limit)
	if err != nil {
		return Problems{}, fmt.Errorf("problems: %w", err)
	}
	return trouble, nil
}

func (s *Store) problems(ctx context.Context, limit int) (Problems, error) {
	if limit <= 0 {
		return Problems{}, argumentError("limit", "must be positive")
	}
	if limit > listedTasksMax {
		return Problems{}, tooLarge("limit", limit, listedTasksMax)
	}
	var problems Problems
	var groups []ErrorGroup
	cut := false
	err := s.db.Run(ctx, pg.Step{
		Name: "list_problems", Args: []any{limit},
		Read: func(rows pgx.Rows) error {
			problems = Problems{} // drops an answer that was cut off
			kinds := []*[]TaskInfo{&problems.Slow, &problems.Failing, &problems.Failed}
			for rows.Next() {
				var kind int
				info, err := readInfo(rows, &kind)
				if err != nil {
					return err
				}
				*kinds[kind] = append(*kinds[kind], info)
			}
			return rows.Err()
		},
	}, pg.Step{
		Name: "list_unwatched", Args: []any{limit},
		Read: func(rows pgx.Rows) error {
			problems.Unwatched = nil
			for rows.Next() {
				info, err := readInfo(rows)
				if err != nil {
					return err
				}
				problems.Unwatched = append(problems.Unwatched, info)
			}
			return rows.Err()
		},
	}, pg.Step{
		Name: "list_errors", Args: []any{errorsCountedMax, errorGroupsMax},
		Read: func(rows pgx.Rows) error {
			groups = nil
			var action, text, example *string
			var tasks *int
			_, err := pgx.ForEachRow(rows, []any{&action, &tasks, &text, &example, &cut},
				func() error {
					if action != nil {
						groups = append(groups,
							ErrorGroup{*action, *tasks, *text, TaskID(*example)})
					}
					return nil
				})
			return err
		},
	})
	problems.Errors, problems.ErrorsCut = groups, cut
	return problems, err
}

// An Inconsistency is a state of the tables that should be impossible.
type Inconsistency struct {
	Rule  string // says what should be
	ID    TaskID // the task concerned, if it has a definition
	Found string // says what is
}

// String writes the inconsistency in one line.
func (i Inconsistency) String() string {
	return fmt.Sprintf("%s: task %q: %s", i.Rule, string(i.ID), i.Found)
}

// inconsistenciesMax is how many inconsistencies Check returns at most.
const inconsistenciesMax = 1000

// Check compares the tables with one another: each task is in exactly one state, counters equal
// dependencies, no task has begun before its predecessors ended, none waits for ever, there is no
// cycle, nothing is half settled, no lease remains a minute after it expired, and limits count the
// tasks that they should and hold up no others. It returns up to 1,000 findings of each kind; an
// empty answer means that nothing is wrong.
//
// It changes nothing, locks nothing and may be called on a store in use: each of its statements
// sees one instant. It reads all tables from end to end, which takes about a second per few hundred
// thousand tasks. If tasks seem to be held up by a limit that is not reached, it looks again after
// three seconds, since stores that maintain mend what a process that died has left so.
func (s *Store) Check(ctx context.Context) ([]Inconsistency, error) {
	found, err := s.check(ctx)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return found, nil
}

func (s *Store) check(ctx context.Context) ([]Inconsistency, error) {
	var found []Inconsistency
	// Between its statements it may read many tasks, and it locks none.
	err := s.db.WithoutIdleLimit().Read(ctx, pgx.ReadCommitted, func(db *pg.DB) error {
		within := s.on(db)
		for _, find := range []func(context.Context) ([]Inconsistency, error){
			within.findInconsistencies, within.findParked, within.findCycles,
		} {
			more, err := find(ctx)
			if err != nil {
				return err
			}
			found = append(found, more...)
		}
		return nil
	})
	return found, err
}

func (s *Store) findInconsistencies(ctx context.Context) ([]Inconsistency, error) {
	return s.runCheck(ctx, "check_store")
}

// runCheck runs a statement that reads whole tables.
func (s *Store) runCheck(ctx context.Context, name string) (found []Inconsistency, err error) {
	err = s.db.Run(ctx, pg.Step{Name: "plan_for_all", NoPlanner: true}, pg.Step{
		Name: name, Args: []any{inconsistenciesMax}, NoPlanner: true,
		Read: func(rows pgx.Rows) error {
			found, err = readInconsistencies(rows)
			return err
		},
	})
	return found, err
}

func readInconsistencies(rows pgx.Rows) ([]Inconsistency, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Inconsistency, error) {
		var i Inconsistency
		var key int64
		var id, text *string
		err := row.Scan(&i.Rule, &key, &id, &text)
		if id != nil {
			i.ID = TaskID(*id)
		}
		if text != nil {
			i.Found = *text
		}
		if i.ID == "" {
			i.Found = fmt.Sprintf("key %d: %s", key, i.Found)
		}
		return i, err
	})
}

// mendedWithin is how soon maintainers mend what a process has left undone that died.
const mendedWithin = 3 * time.Second

// findParked finds tasks that are parked though nothing holds them up, and stay so.
func (s *Store) findParked(ctx context.Context) ([]Inconsistency, error) {
	before, err := s.runCheck(ctx, "check_parked")
	if err != nil || len(before) == 0 {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(mendedWithin):
	}
	found, err := s.runCheck(ctx, "check_parked")
	return slices.DeleteFunc(found, func(i Inconsistency) bool {
		return !slices.Contains(before, i)
	}), err
}

// findCycles finds one cycle, if there is any.
func (s *Store) findCycles(ctx context.Context) ([]Inconsistency, error) {
	numbered := dag.NewKeyGraph()
	err := s.db.Run(ctx, pg.Step{Name: "plan_for_all", NoPlanner: true}, pg.Step{
		Name: "unsettled_edges", NoPlanner: true, Read: network.ReadEdges(numbered),
	})
	if err != nil {
		return nil, err
	}
	cycle := numbered.Cycle()
	if cycle == nil {
		return nil, nil
	}
	err = s.cycleError(ctx, cycle, map[int64]TaskID{})
	if !errors.Is(err, ErrCycle) {
		return nil, err
	}
	return []Inconsistency{{Rule: "dependencies have no cycle (R4)", Found: err.Error()}}, nil
}

// A Minute is what has happened within about a minute, and what waited at its end.
type Minute struct {
	// Since and Until say from when until when it was, on the database's clock. It is longer than a
	// minute if no store maintained.
	Since, Until time.Time

	// Tries is how many tasks were fetched, Retries how many of these were not first tries; -1 if
	// that is not known: in the first minute that was noted, and in the first one of an action that
	// had no room before.
	Tries, Retries int64
	// Completed is how many tasks have completed, Failed how many were aborted by their owners,
	// because their tries were exhausted, because their Deadline passed, or because they lost
	// several owners. Those that do not stay ([KeepNone]) are not counted.
	Completed, Failed int64
	// Median is how long the tasks that have completed took from their insertion to their end, so
	// that half of them took longer; P95, so that a twentieth did; 0 if none has.
	Median, P95 time.Duration
	// WaitMedian and WaitP95 say the same of how long they had been ready when they were fetched
	// for the last time, RunMedian and RunP95 of the time from there to their end.
	WaitMedian, WaitP95, RunMedian, RunP95 time.Duration
	// Estimated says that many tasks have ended, so that all these are estimates.
	Estimated bool

	// Ready is how many tasks were ready at the end, OldestReady for how long, as [ActionStats]
	// says. Of all actions together, external tasks do not count.
	Ready       int64
	OldestReady time.Duration
}

// Minutes returns what has happened in each minute of the last day with the tasks of an action, or
// of all actions together if it is empty, the oldest minute first; an action without notes has
// none. The stores that maintain note it, one for all, unless [Options.WithoutMinutes] says
// otherwise: each minute of all actions together, and of up to 100 actions, which are those of
// which most tasks are ready or have ended. Up to 20,000 rows of completed tasks, and as many of
// aborted ones, are counted in a minute, and of about 2,000 the action and the times are looked up;
// what is beyond that is estimated. Fetches are counted as [ActionStats] says. An action that no
// task can have is refused with an [*ArgumentError].
func (s *Store) Minutes(ctx context.Context, action string) ([]Minute, error) {
	if action != "" {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return nil, fmt.Errorf("minutes: %w", err)
		}
	}
	noted, err := counts.Minutes(ctx, s.db, action)
	if err != nil {
		return nil, fmt.Errorf("minutes: %w", err)
	}
	orUnknown := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	var minutes []Minute
	for i := range noted {
		n := &noted[i]
		minutes = append(minutes, Minute{
			Since: n.Since, Until: n.Until, Tries: orUnknown(n.Tries),
			Retries: orUnknown(n.Retries), Completed: n.Completed, Failed: n.Failed,
			Median: pg.OrZero(n.Median), P95: pg.OrZero(n.P95), Estimated: n.Estimated,
			WaitMedian: pg.OrZero(n.WaitMedian), WaitP95: pg.OrZero(n.WaitP95),
			RunMedian: pg.OrZero(n.RunMedian), RunP95: pg.OrZero(n.RunP95),
			Ready: n.Ready, OldestReady: pg.OrZero(n.Oldest),
		})
	}
	return minutes, nil
}

// noteMinute notes what has happened in this minute.
func (s *Store) noteMinute(ctx context.Context) error {
	return s.counter.NoteMinute(ctx, s.db, External)
}
