package stint

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/numbering"
	"github.com/stint-tasks/stint/internal/pg"
)

// An Answer is how an external task has ended.
type Answer struct {
	ID     TaskID
	Key    AnswerKey  // that of the task; empty if the task has none
	Code   StatusCode // completed, aborted or skipped
	Status string     // a text for people to read, cut at 64 KiB
	Result []byte     // for dependents and waiters, at most 64 MiB; none if the task is skipped
}

// AnswerTasks ends tasks whose action is [External], as [Store.ReturnTasks] ends tasks in progress,
// and settles what this means for their dependents in the same transaction. The actor is who
// answers, kept with the tasks for people to read, but not with skipped ones. A task is answered
// once: of several answers, one takes effect.
//
// The first result has an error for each answer, nil if it took effect:
//
//   - [ErrTaskFinished], if the task has been answered before, or aborted, or its Deadline has
//     passed, which then ends it;
//   - [ErrTaskBlocked], if it waits for other tasks, or for its time: answer again later;
//   - [ErrTaskNotFound], if there is none, or it was deleted or pruned;
//   - [ErrInvalidAnswerKey], if Key is not the key that the task was inserted with; pages for the
//     public should show this and [ErrTaskNotFound] alike;
//   - an [*ArgumentError], if it has another action, or the answer has a bad value.
//
// An answer that is refused does not affect the others. The second result is about the whole call:
// if it is not nil, no answer took effect, except that some may have if ctx ended or the connection
// broke during the call. The call may be repeated: [ErrTaskFinished] then tells that the first one
// took effect, or another answer did.
func (s *Store) AnswerTasks(
	ctx context.Context, actor ActorID, answers []Answer,
) ([]error, error) {
	verdicts, err := s.answerTasks(ctx, actor, answers)
	told := func(verdict error) bool { return errors.Is(verdict, ErrTaskFinished) }
	if err == nil && slices.ContainsFunc(verdicts, told) {
		err = s.db.WaitForCommit(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("answer tasks: %w", err)
	}
	return verdicts, nil
}

func (s *Store) answerTasks(
	ctx context.Context, actor ActorID, answers []Answer,
) ([]error, error) {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return nil, err
	}
	verdicts := make([]error, len(answers))
	first := make(map[TaskID]int, len(answers)) // the place of the first answer to each task
	for i, answer := range answers {
		earlier, repeated := first[answer.ID]
		switch err := answer.check(); {
		case err != nil:
			verdicts[i] = at(err, i, answer.ID)
		case repeated:
			verdicts[i] = at(argumentError("Answer.ID", fmt.Sprintf(
				"must not be answered twice in a call, also at index %d", earlier)), i, answer.ID)
		default:
			first[answer.ID] = i
		}
	}
	var overdue []int64
	for range attemptsMax {
		if len(first) == 0 {
			s.endOverdue(ctx, overdue)
			return verdicts, s.db.CheckOpen(ctx)
		}
		batch, skips, late, err := s.readyToAnswer(ctx, first, answers, verdicts)
		overdue = append(overdue, late...)
		if err != nil {
			return nil, err
		}
		skipped, err := s.settleAnswers(ctx, actor, batch, skips)
		switch {
		case errors.Is(err, errUnstable):
			continue
		case err != nil:
			return nil, err
		}
		for _, id := range skipped {
			delete(first, id)
		}
		for n, i := range batch.chosen {
			if batch.settled[n] {
				delete(first, batch.returns[i].ID)
			}
		}
	}
	for id, i := range first {
		verdicts[i] = &TaskError{IDs: []TaskID{id}, Err: errUnstable}
	}
	s.endOverdue(ctx, overdue)
	return verdicts, nil
}

// endOverdue ends tasks of which the deadline has passed, so that those who are told so find them
// aborted, even if nobody maintains. If that fails, it is left to those who maintain; and so it is
// in the caller's transaction, where a refused answer changes nothing.
func (s *Store) endOverdue(ctx context.Context, keys []int64) {
	if !s.db.InTx() {
		slices.Sort(keys)
		_, _ = s.endDue(ctx, keys, &dueEnds{atOnce: len(keys)})
	}
}

// readyToAnswer returns the answers that can take effect, as returns under a claim that their tasks
// are to be taken by. For the others it fills in the verdicts, and takes them out of places. late
// are the keys of tasks that have not finished, though their deadline has passed.
func (s *Store) readyToAnswer(
	ctx context.Context, places map[TaskID]int, answers []Answer, verdicts []error,
) (batch *returnBatch, skips map[int64]string, late []int64, err error) {
	skips = map[int64]string{}
	claim, err := newClaim()
	if err != nil {
		return nil, nil, nil, err
	}
	ids := make([]TaskID, 0, len(places))
	for id := range places {
		ids = append(ids, id)
	}
	found := make(map[TaskID]externalTask, len(ids))
	find := pg.Step{Name: "external_tasks", Args: []any{texts(ids)}, Read: readExternal(found)}
	if err := s.db.Run(ctx, find); err != nil {
		return nil, nil, nil, err
	}
	var returns []Return
	var chosen []int
	for id, i := range places {
		task, ok := found[id]
		if verdict := task.verdict(answers[i], ok); verdict != nil {
			verdicts[i] = at(verdict, i, id)
			delete(places, id)
			if errors.Is(verdict, errOverdue) {
				late = append(late, task.key)
			}
			continue
		}
		if answers[i].Code == StatusSkipped {
			skips[task.key] = answers[i].Status
			continue
		}
		answered := answers[i].asReturn()
		hint := numbering.Hints{Signals: true, Posts: task.posts}
		answered.Token = newToken(claim, task.key, id, hint)
		chosen, returns = append(chosen, len(returns)), append(returns, answered)
	}
	return newReturnBatch(returns, chosen, false), skips, late, nil
}

// settleAnswers settles the answers of a batch, all or none, and skips tasks, of which it returns
// the IDs. If one of these has moved on meanwhile, the error is errUnstable.
func (s *Store) settleAnswers(
	ctx context.Context, actor ActorID, batch *returnBatch, skips map[int64]string,
) (skipped []TaskID, err error) {
	keys := slices.Sorted(maps.Keys(skips))
	if len(keys) == 0 {
		return nil, s.returnAnswers(ctx, actor, batch)
	}
	err = s.transact(ctx, func(s *Store) error {
		tasks, err := s.withdrawKeys(ctx, keys)
		if err != nil {
			return err
		}
		if _, err := changes.Tasks(ctx, s.db, "AnswerTasks", keys); err != nil {
			return err
		}
		for i, task := range tasks {
			if task.state != stateReady {
				return errUnstable
			}
			if _, err := s.end(ctx, tasks[i:i+1], causeSkipped, skips[task.key]); err != nil {
				return err
			}
		}
		skipped = slices.Collect(idsOf(tasks))
		return s.returnAnswers(ctx, actor, batch)
	})
	return skipped, err
}

// returnAnswers takes the tasks of a batch and returns them.
func (s *Store) returnAnswers(ctx context.Context, actor ActorID, batch *returnBatch) error {
	if len(batch.chosen) == 0 {
		return nil
	}
	keys, claim := batch.keys, batch.claims[0] // all have the same
	note := changes.Note(ctx, "note_tasks", "AnswerTasks", changes.NamesMax, keys, claim)
	return s.settleReturns(ctx, batch, roundsUsual, append([]pg.Step{
		{Name: "split_ready", Args: []any{keys}},
		{Name: "take_external", Args: []any{keys, claim, string(actor)}},
	}, note...))
}

// An externalTask is what an answer must know of its task.
type externalTask struct {
	key             int64
	action          string
	posts           bool
	ready, finished bool
	overdue         bool   // its deadline has passed, whether or not it has finished
	hash            []byte // of its answer key, nil if it has none
}

// errOverdue is the verdict on a task that has not been ended yet, but cannot be answered any more.
var errOverdue = fmt.Errorf("%w: its deadline has passed", ErrTaskFinished)

func readExternal(found map[TaskID]externalTask) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		clear(found)
		var id TaskID
		var task externalTask
		scans := []any{
			&task.key, &id, &task.action, &task.posts, &task.ready, &task.finished, &task.overdue,
			&task.hash,
		}
		_, err := pgx.ForEachRow(rows, scans, func() error {
			found[id] = task
			task.hash = nil // the next one's has an array of its own
			return nil
		})
		return err
	}
}

// verdict is why the task cannot be answered so, or nil.
func (t externalTask) verdict(answer Answer, known bool) error {
	refused := func(err error) error { return &TaskError{IDs: []TaskID{answer.ID}, Err: err} }
	switch {
	case !known:
		return refused(ErrTaskNotFound)
	case !answer.Key.opens(t.hash):
		return refused(ErrInvalidAnswerKey)
	case t.action != External:
		return argumentError("Answer.ID", fmt.Sprintf(
			"must be that of a task with the action %s, not %.40q", External, t.action))
	case t.finished:
		return refused(ErrTaskFinished)
	case t.overdue:
		return refused(errOverdue)
	case !t.ready:
		return refused(ErrTaskBlocked)
	default:
		return nil
	}
}

func (a *Answer) asReturn() Return {
	return Return{ID: a.ID, Code: a.Code, Status: a.Status, Result: a.Result}
}

func (a *Answer) check() error {
	returned := a.asReturn()
	switch a.Code {
	case StatusCompleted, StatusAborted:
	case StatusSkipped:
		if returned.Code = StatusCompleted; len(a.Result) > 0 {
			return argumentError("Answer.Result", "must be empty: a skipped task has none")
		}
	default:
		return argumentError("Answer.Code",
			fmt.Sprintf("must be completed, aborted or skipped, not %.40q", string(a.Code)))
	}
	if a.Key != "" {
		if err := a.Key.check("Answer.Key"); err != nil {
			return err
		}
	}
	err := returned.check()
	var argument *ArgumentError
	if errors.As(err, &argument) { // it is named after a return
		argument.Argument = "Answer" + argument.Argument[len("Return"):]
	}
	return err
}

// opens reports whether the key is that of a task, of which the store has a hash, or none if the
// task has no key.
func (k AnswerKey) opens(hash []byte) bool {
	if hash == nil || k == "" {
		return hash == nil && k == ""
	}
	sum := sha256.Sum256([]byte(k))
	return subtle.ConstantTimeCompare(sum[:], hash) == 1
}
