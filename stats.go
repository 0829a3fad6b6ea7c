package stint

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Stats is how many tasks there are.
type Stats struct {
	// Actions are the actions that tasks have, or had lately, and those that have limits or are
	// paused, in the order of their names.
	Actions []ActionStats

	// Estimated are the states that so many tasks are in that some counts are estimates.
	Estimated []State

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

	// OldestReady is how long ago the oldest ready task was inserted, which is the one that has
	// waited longest in the queue of its priority; zero if none is ready.
	OldestReady time.Duration

	// Tries is how many tasks were handed out so far, Retries how many of these were not first
	// tries: two calls give the rate. Both only grow, until nobody has asked for the action for a
	// week; then they restart. Each store adds its counts once a second, and when it is closed; the
	// last hand-outs of a process that died are missing.
	Tries, Retries int64

	// Parked is how many of the ready tasks wait for room below a limit of their key, for the end
	// of its pause, or for its turn.
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
		} {
			if !yield(state, *a.of(state)) {
				return
			}
		}
	}
}

const (
	// countedSpansMax is how many spans of tasks are counted, in each state and of each ready
	// action. countedPairsMax is how many pairs of action and priority are looked at, and for how
	// many actions the tries are returned.
	countedSpansMax = 1000
	countedPairsMax = 1000
	// sampledPages is how many pages of a larger table are looked at.
	sampledPages = 64
)

// Stats counts the tasks in the store, by action and state, in constant time. In each state it
// counts up to 1,000 rows exactly, where a row is a task or a span of up to 1,000 tasks that were
// inserted, handed out or returned together; beyond that it estimates the number from a sample, and
// says so. It counts ready tasks per action, so that a few are never lost among many; if there are
// more than 1,000 pairs of action and priority, some may be missing. Parked tasks of a priority are
// counted apart from its other ready ones, as of one more priority. Of more than 1,000 actions with
// limits or pauses, some are told as if they had none. The counts of different states are not as of
// one instant.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	var counts tally
	err := s.run(ctx,
		step{
			name: "count_ready", args: []any{countedSpansMax, countedPairsMax},
			read: counts.readReady,
		},
		step{name: "count_tasks", args: []any{countedSpansMax}, read: counts.readOthers},
		step{name: "count_tries", args: []any{countedPairsMax}, read: counts.readTries},
		step{name: "limited_actions", args: []any{countedPairsMax}, read: counts.readLimited},
		step{name: "pruning_behind", read: counts.readBehind})
	if err == nil && len(counts.many) > 0 {
		err = s.run(ctx, step{
			name: "sample_tasks", args: []any{sampledPages}, read: counts.readSample,
		})
	}
	if err != nil {
		return Stats{}, fmt.Errorf("stats: %w", err)
	}
	return counts.stats(), nil
}

// A counted is what tasks are counted by.
type counted struct {
	state  State
	action string
}

// A tally is what was counted.
type tally struct {
	tasks map[counted]int64
	// many are the states whose tasks were not all counted. few are the actions whose ready tasks
	// were all counted.
	many []State
	few  map[string]bool
	ages map[string]time.Duration
	// tries are the hand-outs, by action.
	tries map[string]tryCount
	// parked are the parked tasks among the ready ones, limited what is known of limits, by action.
	parked  map[string]int64
	limited map[string]limitedAction
	// behind is how far pruning is behind.
	behind time.Duration
}

// A limitedAction is what Stats tells of limits.
type limitedAction struct {
	limited, paused bool
	concurrency     int
}

// readReady begins the tally: its answer comes first, also when the question is repeated since an
// answer was cut off.
func (t *tally) readReady(rows pgx.Rows) error {
	*t = tally{
		tasks: map[counted]int64{}, few: map[string]bool{}, ages: map[string]time.Duration{},
		tries: map[string]tryCount{}, parked: map[string]int64{},
		limited: map[string]limitedAction{},
	}
	var action string
	var tasks int64
	var more, parked bool
	var age time.Duration
	pairs := 0
	_, err := pgx.ForEachRow(rows, []any{&action, &tasks, &more, &age, &parked}, func() error {
		pairs++
		if parked {
			t.parked[action] += tasks
		}
		t.tasks[counted{StateReady, action}] += tasks
		t.ages[action] = max(t.ages[action], age)
		known, met := t.few[action]
		t.few[action] = !more && (known || !met)
		if more {
			t.notAll(StateReady)
		}
		return nil
	})
	if pairs == countedPairsMax {
		t.notAll(StateReady)
		t.few[action] = false // there may be more of the last one
	}
	return err
}

func (t *tally) readOthers(rows pgx.Rows) error {
	spansOf := map[State]int64{}
	var number int16
	var action *string
	var tasks, spans int64
	_, err := pgx.ForEachRow(rows, []any{&number, &action, &tasks, &spans}, func() error {
		state := stateOf(number)
		spansOf[state] += spans
		if action != nil { // it was not replaced
			t.tasks[counted{state, *action}] += tasks
		}
		return nil
	})
	if spansOf[StateCompleted]+spansOf[StateAborted] > countedSpansMax { // of one table
		t.notAll(StateCompleted)
		t.notAll(StateAborted)
	}
	for _, state := range []State{StateBlocked, StateScheduled, StateInProgress} {
		if spansOf[state] > countedSpansMax {
			t.notAll(state)
		}
	}
	return err
}

func (t *tally) notAll(state State) {
	if !slices.Contains(t.many, state) {
		t.many = append(t.many, state)
	}
}

// readSample takes estimates of the states that were not counted to the end, but never less than
// the count.
func (t *tally) readSample(rows pgx.Rows) error {
	var number int16
	var action string
	var tasks, parked int64
	_, err := pgx.ForEachRow(rows, []any{&number, &action, &tasks, &parked}, func() error {
		of := counted{stateOf(number), action}
		isCounted := of.state == StateReady && t.few[action]
		if !slices.Contains(t.many, of.state) || isCounted {
			return nil
		}
		t.tasks[of] = max(t.tasks[of], tasks)
		if of.state == StateReady {
			t.parked[action] = max(t.parked[action], parked)
		}
		return nil
	})
	return err
}

func (t *tally) readTries(rows pgx.Rows) error {
	var action string
	var n tryCount
	_, err := pgx.ForEachRow(rows, []any{&action, &n.tries, &n.retries}, func() error {
		t.tries[action] = n
		return nil
	})
	return err
}

func (t *tally) readLimited(rows pgx.Rows) error {
	var action string
	var is limitedAction
	var concurrency *int
	into := []any{&action, &is.limited, &concurrency, &is.paused}
	_, err := pgx.ForEachRow(rows, into, func() error {
		is.concurrency = orZero(concurrency)
		t.limited[action] = is
		return nil
	})
	return err
}

func (t *tally) readBehind(rows pgx.Rows) error {
	_, err := pgx.ForEachRow(rows, []any{&t.behind}, func() error { return nil })
	return err
}

func (t *tally) stats() Stats {
	actions := map[string]*ActionStats{}
	of := func(action string) *ActionStats {
		if actions[action] == nil {
			n, is := t.tries[action], t.limited[action]
			actions[action] = &ActionStats{
				Action: action, OldestReady: t.ages[action], Tries: n.tries, Retries: n.retries,
				Parked: t.parked[action], Limited: is.limited, Concurrency: is.concurrency,
				Paused: is.paused,
			}
		}
		return actions[action]
	}
	for counted, tasks := range t.tasks {
		*of(counted.action).of(counted.state) = tasks
	}
	for action := range t.tries {
		of(action)
	}
	for action := range t.limited {
		of(action)
	}
	stats := Stats{Estimated: t.many, PruningBehind: t.behind}
	for _, a := range slices.SortedFunc(maps.Values(actions), func(a, b *ActionStats) int {
		return cmp.Compare(a.Action, b.Action)
	}) {
		stats.Actions = append(stats.Actions, *a)
	}
	return stats
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
	default:
		return &a.Aborted
	}
}
