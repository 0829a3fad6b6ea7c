package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/pg"
)

// A Return ends the performance of an owned task.
type Return struct {
	ID    TaskID
	Token Token

	// Code is the outcome: [StatusCompleted], [StatusAborted], or [StatusPending] for another try.
	Code StatusCode

	// Status is for people to read. It never prevents the return: text that cannot be stored is
	// replaced, and long text is cut at 64 KiB.
	Status string

	// Result is for dependents and waiters, at most 64 MiB. A task that is returned for another
	// try has none.
	Result []byte

	// RetryAfter is how long a task that is returned as pending waits before it is ready, up to ten
	// years; else it is 0. Default: ready at once, behind the tasks that are ready already.
	RetryAfter time.Duration

	// Release refunds the try of a task that is returned as pending, as if it had not been fetched
	// . An empty Status keeps the current one.
	Release bool

	// Spent is what the try has really cost, 0 to 10⁹, also if it failed: where the limits of the
	// action are [Limits.ByCost], the next fetch takes what is beyond [Task.Cost] from the buckets,
	// or puts back what is left. Otherwise it has no effect. Default: as much as Task.Cost.
	Spent *int

	// Log is the last lines that were logged of the performance, for [Store.History], if
	// [Options.History] keeps tries; otherwise it goes unread. Its last 16 KiB are kept.
	Log string
}

// ReturnTask ends the performance that token was given for, with a status text for people. With
// [StatusCompleted] or [StatusAborted] the task is final; with [StatusPending] it is ready for
// another try at once, or aborted with [CauseTries] if it has no tries left.
// Unlike a fetch, which is cut at 8 MiB of bodies, a return is cut at nothing: its results go to
// the server 8 MiB at a time, for as long as a slow line needs, which ctx should allow.
//
// An owner whose lease has expired may still return the task, unless the task has ended or somebody
// else has been given it (R8). If the lease of the last try expires, the task is aborted with
// [CauseTries] (R13); its owner may then still return it as pending, so that the status says why it
// failed. A caller that waited for the task may have seen it without that status.
//
// Otherwise, or if the token is not for this ID, the error is [ErrInvalidToken], in a [*TaskError];
// it is also [ErrTaskNotFound] if there is no such task.
//
// If ctx ends or the connection breaks during the call, the task may have been returned. Calling
// again with the same arguments is safe: [ErrAlreadyReturned] then means that the first call
// returned it (R11). It may also have done so before an [ErrInvalidToken] if the task was retried,
// replaced, deleted or pruned since then: with its end, its last token is forgotten.
func (s *Store) ReturnTask(
	ctx context.Context, id TaskID, token Token, status string, code StatusCode,
) error {
	returned := Return{ID: id, Token: token, Status: status, Code: code}
	verdicts, err := s.returnShared(ctx, []Return{returned})
	if err == nil {
		err = verdicts[0]
	}
	if err != nil {
		return fmt.Errorf("return task: %w", err)
	}
	return nil
}

// ReturnTasks is [Store.ReturnTask] for many tasks in one transaction. The first result has an
// error for each return, nil if it was accepted; a return that is refused, for its token or for a
// bad value, does not affect the others. The second result is about the whole call: if it is not
// nil, no return took effect, except that all may have if ctx ended or the connection broke during
// the call. A late owner's return takes a second look; if that fails, only this return fails. The
// call may be repeated like ReturnTask.
func (s *Store) ReturnTasks(ctx context.Context, returns []Return) ([]error, error) {
	verdicts, err := s.returnShared(ctx, returns)
	if err != nil {
		return nil, fmt.Errorf("return tasks: %w", err)
	}
	return verdicts, nil
}

// A Want is what a caller of [Store.ReturnAndOwnTasks] wants to own. The fields are the parameters
// of [Store.OwnTasks].
type Want struct {
	Actor ActorID
	// MaxTasks may be 0: then nothing is fetched, and the other fields do not matter.
	MaxTasks int
	Actions  []string
	Lease    time.Duration
}

// ReturnAndOwnTasks returns tasks and owns others in their place, in one transaction and one round
// trip, so a worker's cycle costs one commit. Tasks that become ready by the returns may be among
// those that are fetched. If some of the actions have limits, or the results have more than
// 1 MiB together, it is two transactions.
//
// It looks for tasks once. So if it fetches none, some may be ready all the same, such as those
// that have just become due: [Store.OwnTasks] and [Store.WaitToOwnTasks] find them.
//
// The returns must be independent of one another. If a transaction holds one of the tasks,
// ReturnTasks would wait for it with all its returns. ReturnAndOwnTasks soon gives up: each return
// that was not made, including every return of a late owner, has the error [ErrBusy]. Make these
// one by one, with ReturnTask. A return that was made before
// has [ErrAlreadyReturned], as with ReturnTasks, also where others are held up; one whose task is
// gone, as with KeepNone, [ErrInvalidToken]. Tasks may be fetched whatever these errors are.
//
// If the last result is not nil, nothing was fetched for good, as with OwnTasks, and the returns
// may have been made or not: repeat them. In a transaction the call is refused with an
// [*ArgumentError], since its locks would outlast the call.
func (s *Store) ReturnAndOwnTasks(
	ctx context.Context, returns []Return, want Want,
) (verdicts []error, owned []OwnedTask, err error) {
	answer, err := s.returnAndOwn(ctx, ownRequest{Want: want, returns: returns})
	if err != nil {
		return nil, nil, fmt.Errorf("return and own tasks: %w", err)
	}
	return answer.verdicts, answer.tasks, nil
}

func (s *Store) returnAndOwn(ctx context.Context, request ownRequest) (ownAnswer, error) {
	if err := s.outsideTx(", whose locks outlast the call"); err != nil {
		return ownAnswer{}, err
	}
	if request.MaxTasks != 0 {
		return s.ownTasks(ctx, request)
	}
	verdicts, err := s.returnPromptly(ctx, request.returns, returnMode{noWait: true})
	if err != nil {
		return ownAnswer{}, err
	}
	s.judgeReturned(ctx, request.returns, verdicts, make([]bool, len(verdicts)))
	return ownAnswer{verdicts: verdicts}, nil
}

// returnPromptly makes returns, and runs more steps in the same transaction. If a lock holds them
// up, none is made, and the steps run alone.
func (s *Store) returnPromptly(
	ctx context.Context, returns []Return, mode returnMode, last ...pg.Step,
) ([]error, error) {
	verdicts, err := s.returnTasks(ctx, returns, mode, last...)
	if !pg.IsCode(err, pg.CodeLockNotAvailable) {
		return verdicts, err
	}
	verdicts = make([]error, len(returns))
	for i := range returns {
		if verdicts[i] = at(returns[i].check(), i, returns[i].ID); verdicts[i] == nil {
			verdicts[i] = errHeldUp
		}
	}
	if len(last) > 0 {
		err = s.db.Run(ctx, last...)
	} else {
		err = nil
	}
	return verdicts, err
}

// judgeReturned looks again at returns that need it, as far as that takes no lock: it makes those
// that came at the wrong moment, and judges the others. Made says which of them an attempt of the
// same call, whose answer was lost, may have made.
func (s *Store) judgeReturned(
	ctx context.Context, returns []Return, verdicts []error, made []bool,
) {
	const attempts = 5
	defer func() { s.ownUp(returns, verdicts, made) }()
	for attempt := range attempts {
		s.judgeRefused(ctx, returns, verdicts, attempt+1 < attempts)
		places, undecided := undecidedReturns(returns, verdicts)
		if len(places) == 0 {
			return
		}
		again, err := s.returnPromptly(ctx, undecided, returnMode{noWait: true, again: true})
		for n, i := range places {
			if verdicts[i] = errHeldUp; err == nil {
				verdicts[i] = again[n]
			}
			made[i] = made[i] || pg.WasCutOff(err)
		}
	}
}

// ownUp makes the verdicts those of one call: what an attempt of the same call has made, whose
// answer was lost, was not made before it. A return that comes twice in a call was made once.
func (s *Store) ownUp(returns []Return, verdicts []error, made []bool) {
	type named struct {
		id    TaskID
		token Token
	}
	before := map[named]int{}
	dropsCompleted, dropsAborted := s.keep.Drops()
	for i, r := range returns {
		if !made[i] {
			continue
		}
		if first, ok := before[named{r.ID, r.Token}]; ok {
			verdicts[i] = repeated(r, returns[first], verdicts[first])
			continue
		}
		before[named{r.ID, r.Token}] = i
		drops := r.Code == StatusCompleted && dropsCompleted ||
			r.Code == StatusAborted && dropsAborted
		if errors.Is(verdicts[i], ErrAlreadyReturned) ||
			drops && errors.Is(verdicts[i], ErrTaskNotFound) { // it was deleted as it ended
			verdicts[i] = nil
		}
	}
}

// judgeRefused judges the returns that were not made. Those that another attempt may make keep
// errSecondLook.
func (s *Store) judgeRefused(
	ctx context.Context, returns []Return, verdicts []error, another bool,
) {
	var places []int
	var performances []performance
	var ids []string
	for i, verdict := range verdicts {
		if errors.Is(verdict, errSecondLook) || errors.Is(verdict, errHeldUp) {
			places, ids = append(places, i), append(ids, string(returns[i].ID))
			performances = append(performances, returns[i].performance())
		}
	}
	if len(places) == 0 {
		return
	}
	keys, claims := keysAndClaims(performances)
	judgements := make([]judgement, len(places))
	err := s.db.Run(ctx, pg.Step{
		Name: "explain_refusals", Args: []any{keys, claims, ids}, Read: readJudgements(judgements),
	}, pg.Step{Name: "wait_for_commit", NoPlanner: true})
	for n, i := range places {
		verdict := judgements[n].verdict(returns[i])
		switch {
		case err == nil && (!judgements[n].known || errors.Is(verdict, ErrAlreadyReturned)):
			verdicts[i] = verdict
		case err == nil && another && judgements[n].owned && errors.Is(verdicts[i], errSecondLook):
		default: // ReturnTask will tell
			verdicts[i] = &TaskError{IDs: []TaskID{returns[i].ID}, Err: ErrBusy}
		}
	}
}

// returnShared returns tasks. If they are few and no return is refused beforehand, it returns them
// together with the tasks that other callers return at the same time.
func (s *Store) returnShared(ctx context.Context, returns []Return) ([]error, error) {
	refused := func(r Return) bool { return r.check() != nil }
	if s.db.InTx() || returnsSize(returns) > groupcommit.SizeMax/2 ||
		slices.ContainsFunc(returns, refused) {
		return s.returnTasks(ctx, returns, returnMode{})
	}
	if err := s.db.CheckOpen(ctx); err != nil {
		return nil, err
	}
	verdicts, err := s.returns.Do(ctx, struct{}{}, returns)
	if err != nil {
		return nil, err
	}
	s.returnAgain(ctx, returns, verdicts)
	return verdicts, nil
}

// returnAgain repeats the returns that need a second look.
func (s *Store) returnAgain(ctx context.Context, returns []Return, verdicts []error) {
	places, undecided := undecidedReturns(returns, verdicts)
	if len(undecided) == 0 {
		return
	}
	second, err := s.returnTasks(ctx, undecided, returnMode{})
	for j, i := range places {
		if verdicts[i] = err; err == nil {
			verdicts[i] = second[j]
		}
	}
}

// undecidedReturns are the returns that need a second look, with their places.
func undecidedReturns(returns []Return, verdicts []error) (places []int, undecided []Return) {
	for i, verdict := range verdicts {
		if errors.Is(verdict, errSecondLook) {
			places, undecided = append(places, i), append(undecided, returns[i])
		}
	}
	return places, undecided
}

// returnsSize is how much of a batch returns take: one each, and one for each KiB of results and
// logs.
func returnsSize(returns []Return) int {
	const resultBytes = 1 << 10
	size := len(returns)
	for i := range returns {
		size += (len(returns[i].Result) + len(returns[i].Log)) / resultBytes
	}
	return size
}

func cloneReturns(returns []Return) []Return {
	returns = slices.Clone(returns)
	for i := range returns {
		returns[i].Result = slices.Clone(returns[i].Result)
	}
	return returns
}

// returnTogether makes the returns of several callers.
func (s *Store) returnTogether(
	ctx context.Context, _ struct{}, calls [][]Return, together bool,
) ([][]error, error) {
	verdicts, err := s.returnTasks(ctx, slices.Concat(calls...), returnMode{noWait: together})
	if err != nil {
		return nil, err
	}
	return groupcommit.Divide(verdicts, calls), nil
}

// A returnMode is how returns are made.
type returnMode struct {
	// noWait says to fail rather than wait long for a lock, and leaves second looks to the callers.
	noWait bool
	again  bool // it is a second attempt
}

// returnTasks makes returns. The last steps run behind the returns, in
// the same transaction.
func (s *Store) returnTasks(
	ctx context.Context, returns []Return, mode returnMode, last ...pg.Step,
) ([]error, error) {
	s = s.on(s.db.WithReserve(pg.Patient, 0))
	verdicts := make([]error, len(returns))
	pending := make([]int, 0, len(returns)) // those without a verdict, to be sorted by key
	repeats := map[int]int{}                // the first return of the same task and token, by place
	type named struct {
		id    TaskID
		token Token
	}
	first := make(map[named]int, len(returns))
	for i := range returns {
		if err := returns[i].check(); err != nil {
			verdicts[i] = at(err, i, returns[i].ID)
			continue
		}
		name := named{returns[i].ID, returns[i].Token}
		if earlier, ok := first[name]; ok {
			repeats[i] = earlier
			continue
		}
		first[name] = i
		pending = append(pending, i)
	}
	if err := s.returnDistinct(ctx, returns, pending, verdicts, mode, last...); err != nil {
		return nil, err
	}
	for i, earlier := range repeats {
		verdicts[i] = repeated(returns[i], returns[earlier], verdicts[earlier])
	}
	return verdicts, nil
}

func (r *Return) check() error {
	if err := checkText("Return.ID", string(r.ID), idBytesMax); err != nil {
		return err
	}
	switch r.Code {
	case StatusPending:
		if r.Result != nil {
			return argumentError("Return.Result", "must be nil with code pending")
		}
	case StatusCompleted, StatusAborted:
		if r.RetryAfter != 0 || r.Release {
			return argumentError("Return.RetryAfter and Return.Release",
				"must be zero unless the code is pending")
		}
	default:
		return argumentError("Return.Code",
			fmt.Sprintf("must be pending, completed or aborted, not %.40q", string(r.Code)))
	}
	switch {
	case r.Spent != nil && (*r.Spent < 0 || *r.Spent > costMax):
		return argumentError("Return.Spent", "must be 0 to 1000000000")
	case len(r.Result) > resultBytesMax:
		return tooLarge("Return.Result bytes", len(r.Result), resultBytesMax)
	case r.RetryAfter < 0:
		return argumentError("Return.RetryAfter", "must not be negative")
	case r.RetryAfter > retryAfterMax:
		return &ArgumentError{
			Argument: "Return.RetryAfter", Index: -1, Err: ErrTooLarge,
			Problem: "must not exceed ten years",
		}
	}
	return nil
}

// repeated is the verdict on a return whose task and token come a second time in one call.
func repeated(second, first Return, verdict error) error {
	switch {
	case verdict != nil && !errors.Is(verdict, ErrAlreadyReturned):
		return verdict
	case second.Code == first.Code:
		return &TaskError{IDs: []TaskID{second.ID}, Err: ErrAlreadyReturned}
	default:
		return &TaskError{IDs: []TaskID{second.ID}, Err: ErrInvalidToken}
	}
}

// performance is what the token of the return stands for.
func (r *Return) performance() performance { return r.Token.performance(r.ID) }
