package stint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	stepNameBytesMax   = 255
	stepResultBytesMax = 1 << 20
	stepsMax           = 1000
	stepsBytesMax      = 16 << 20 // of the results of one task
)

// A RecordedStep is what a step of a task returned, in this try of the task or in one before.
type RecordedStep struct {
	Name       string
	Result     []byte
	RecordedAt time.Time     // on the database's clock
	Ago        time.Duration // how long before the call that was
}

// RecordStep records what a step of an owned task returned, so that the next owner of the task,
// after a failure or a loss, can go on behind it: [Store.Steps]. Steps are known by their names; if
// one with the name is recorded, that stays as it is. RecordStep returns the result that is
// recorded then: the one given, or the one from before. [worker.Step] calls it for handlers.
//
// Steps stay when the task is tried again, put off, or retried after it was aborted, and go with
// the task. A name is 1 to 255 bytes of UTF-8 without NUL, a result at most 1 MiB; a task may have
// 1,000 steps, with results of 16 MiB together. The error for what exceeds this is [ErrTooLarge],
// in an [*ArgumentError].
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken] (R8), and
// nothing is recorded. The call may be repeated after any failure.
//
// [worker.Step]: https://pkg.go.dev/github.com/stint-tasks/stint/worker#Step
func (s *Store) RecordStep(
	ctx context.Context, owned OwnedTask, name string, result []byte,
) ([]byte, error) {
	kept, err := s.recordStep(ctx, owned, name, result)
	if err != nil {
		return nil, fmt.Errorf("record step: %w", err)
	}
	return kept, nil
}

func (s *Store) recordStep(
	ctx context.Context, owned OwnedTask, name string, result []byte,
) ([]byte, error) {
	if err := checkText("step name", name, stepNameBytesMax); err != nil {
		return nil, err
	}
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, err
	}
	if len(result) > stepResultBytesMax {
		return nil, tooLarge("step result bytes", len(result), stepResultBytesMax)
	}
	call := recordedCall{owned.performance(), name, append([]byte{}, result...)} // not nil
	answer, err := s.recordOne(ctx, call)
	// Steps has cut the task out of the row that it may share with others, as a rule.
	for range attemptsMax {
		if err != nil || answer.answered {
			break
		}
		answer, err = s.recordAlone(ctx, owned, call)
	}
	switch {
	case err != nil:
		return nil, err
	case !answer.answered:
		return nil, taskError([]TaskID{owned.ID}, errUnstable)
	case !answer.known:
		return nil, stepsTooLarge(owned.ID)
	}
	return answer.result, nil
}

// recordAlone records a step of a task that may share its row with others, or whose owner is late.
func (s *Store) recordAlone(
	ctx context.Context, owned OwnedTask, call recordedCall,
) (recordAnswer, error) {
	answers := make([]recordAnswer, 1)
	stillOwned := map[performance]bool{}
	record := recording([]recordedCall{call}, answers)
	read := record.Read
	record.Read = func(rows pgx.Rows) error {
		clear(stillOwned)
		err := read(rows)
		if answers[0].answered {
			stillOwned[call.performance] = true
		}
		return err
	}
	err := s.changeOwned(ctx, []OwnedTask{owned}, stillOwned, record)
	return answers[0], err
}

func stepsTooLarge(id TaskID) error {
	return at(&ArgumentError{
		Argument: "steps", Index: -1, Err: ErrTooLarge,
		Problem: fmt.Sprintf("of a task may be %d, with results of %d bytes together",
			stepsMax, stepsBytesMax),
	}, -1, id)
}

// Steps returns the steps that were recorded of an owned task, in this try or in those before, in
// the order in which they were recorded.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken] (R8), in a
// [*TaskError].
func (s *Store) Steps(ctx context.Context, owned OwnedTask) ([]RecordedStep, error) {
	steps, err := s.steps(ctx, owned)
	if err != nil {
		return nil, fmt.Errorf("steps: %w", err)
	}
	return steps, nil
}

func (s *Store) steps(ctx context.Context, owned OwnedTask) ([]RecordedStep, error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, err
	}
	found, err := s.listOne(ctx, owned)
	if err != nil || found.owned {
		return found.steps, err
	}
	return nil, taskError([]TaskID{owned.ID}, ErrInvalidToken)
}

// A StepInfo is a recorded step without its result.
type StepInfo struct {
	Name       string
	RecordedAt time.Time
	Bytes      int // of the result
}

// stepsOf notes the steps of a task.
func stepsOf(id TaskID, steps *[]StepInfo) pg.Step {
	return pg.Step{
		Name: "explain_steps", Args: []any{string(id)},
		Read: func(rows pgx.Rows) (err error) {
			*steps, err = pgx.AppendRows([]StepInfo(nil), rows, pgx.RowToStructByPos[StepInfo])
			return err
		},
	}
}

// A recordedCall is a step to record.
type recordedCall struct {
	performance
	name   string
	result []byte
}

func (c recordedCall) size() int { return 1 + len(c.result)>>10 } // one, and one for each KiB

// A recordAnswer says what became of a step: known that it is recorded, with this result; otherwise
// there is no room for it. One that is not answered is of a task that was not found owned, or that
// shares its row, or another call was recording it.
type recordAnswer struct {
	answered, known bool
	result          []byte
}

// recordOne records a step, together with those that other callers record at the same time.
func (s *Store) recordOne(ctx context.Context, call recordedCall) (recordAnswer, error) {
	if !s.db.InTx() && call.size() <= groupcommit.SizeMax/2 {
		return s.records.Do(ctx, struct{}{}, call)
	}
	answers, err := s.recordTogether(ctx, struct{}{}, []recordedCall{call}, false)
	if err != nil {
		return recordAnswer{}, err
	}
	return answers[0], nil
}

// recordTogether records the steps of several callers.
func (s *Store) recordTogether(
	ctx context.Context, _ struct{}, calls []recordedCall, shared bool,
) ([]recordAnswer, error) {
	s = s.on(s.db.WithReserve(pg.Patient, 0))
	answers := make([]recordAnswer, len(calls))
	steps := append(pg.LimitWaiting(shared), recording(calls, answers))
	return answers, s.db.Do(ctx, pg.Request{Steps: steps})
}

// recording is the step that records what calls give, and fills in the answers.
func recording(calls []recordedCall, answers []recordAnswer) pg.Step {
	type named struct {
		key  int64
		name string
	}
	n := len(calls)
	places := make(map[named][]int, n)
	order := make([]int, n) // by key, as locks are taken
	for i := range calls {
		order[i] = i
		name := named{calls[i].key, calls[i].name}
		places[name] = append(places[name], i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(calls[a].key, calls[b].key)
	})
	keys, claims := make([]int64, n), make([]int64, n)
	names, results := make([]string, n), make([][]byte, n)
	for at, i := range order {
		call := &calls[i]
		keys[at], claims[at] = call.key, int64(call.claim)
		names[at], results[at] = call.name, call.result
	}
	return pg.Step{
		Name: "record_step", Args: []any{keys, claims, names, results, stepsMax, stepsBytesMax},
		Read: func(rows pgx.Rows) error {
			clear(answers) // drops what an attempt that was undone had read
			for rows.Next() {
				var of named
				answer := recordAnswer{answered: true}
				err := rows.Scan(&of.key, &of.name, &answer.known, &answer.result)
				if err != nil {
					return err
				}
				for _, place := range places[of] {
					answers[place] = answer
				}
			}
			return rows.Err()
		},
	}
}

// A listAnswer is the steps of a task, if it was found owned.
type listAnswer struct {
	owned bool
	steps []RecordedStep
}

// listOne returns the steps of a task, together with those that other callers ask for.
func (s *Store) listOne(ctx context.Context, owned OwnedTask) (listAnswer, error) {
	if !s.db.InTx() {
		return s.lists.Do(ctx, struct{}{}, owned)
	}
	answers, err := s.listTogether(ctx, struct{}{}, []OwnedTask{owned}, false)
	if err != nil {
		return listAnswer{}, err
	}
	return answers[0], nil
}

// listTogether returns the steps of the tasks of several callers.
func (s *Store) listTogether(
	ctx context.Context, _ struct{}, calls []OwnedTask, shared bool,
) ([]listAnswer, error) {
	s = s.on(s.db.WithReserve(pg.Patient, 0))
	stillOwned, found := map[performance]bool{}, map[int64][]RecordedStep{}
	steps := append(pg.LimitWaiting(shared), s.listing(ctx, calls, stillOwned, found)...)
	if err := s.db.Do(ctx, pg.Request{Steps: steps}); err != nil {
		return nil, err
	}
	answers := make([]listAnswer, len(calls))
	for i := range calls {
		if p := calls[i].performance(); stillOwned[p] { // otherwise they may be another owner's
			answers[i] = listAnswer{true, found[p.key]}
		}
	}
	return answers, nil
}

// listing are the steps that note which performances are still good, and the recorded steps of
// their tasks by key. Whoever asks for steps is about to record some, which takes a row of the
// task's own, so tasks are cut out of the rows that they share with others.
func (s *Store) listing(
	ctx context.Context, owned []OwnedTask, good map[performance]bool,
	found map[int64][]RecordedStep,
) []pg.Step {
	sorted := slices.Clone(owned)
	slices.SortFunc(sorted, func(a, b OwnedTask) int {
		return cmp.Compare(a.performance().key, b.performance().key)
	})
	keys, claims := keysAndClaims(performancesOf(sorted))
	distinct := slices.CompactFunc(sorted, func(a, b OwnedTask) bool {
		return a.performance().key == b.performance().key
	})
	return append(s.splitSteps(ctx, distinct...),
		pg.Step{Name: "still_owned", Args: []any{keys, claims, true}, Read: readPerformances(good)},
		pg.Step{
			Name: "list_steps", Args: []any{slices.Compact(slices.Clone(keys))},
			Read: func(rows pgx.Rows) error {
				clear(found) // drops what an attempt that was undone had read
				for rows.Next() {
					var key int64
					var recorded RecordedStep
					err := rows.Scan(&key, &recorded.Name, &recorded.Result, &recorded.RecordedAt,
						&recorded.Ago)
					if err != nil {
						return err
					}
					found[key] = append(found[key], recorded)
				}
				return rows.Err()
			},
		})
}
