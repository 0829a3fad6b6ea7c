package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/bodies"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/numbering"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/safely"
)

// The outcomes of returns, as return_tasks numbers them.
const (
	outcomeCompleted int16 = 0
	outcomeAborted   int16 = 1
	outcomePending   int16 = 2
	outcomeReleased  int16 = 3
)

// outcome returns the number of the outcome of a return, for return_tasks.
func (r *Return) outcome() int16 {
	switch {
	case r.Code == StatusCompleted:
		return outcomeCompleted
	case r.Code == StatusAborted:
		return outcomeAborted
	case r.Release:
		return outcomeReleased
	default:
		return outcomePending
	}
}

// errSecondLook is the verdict on a return that needs a second look. That look may have to wait for
// somebody, so each caller takes it alone.
var errSecondLook = errors.New("return needs a second look")

// errHeldUp is the verdict on returns that a lock holds up, or one of those that came along.
var errHeldUp = errors.New("return is held up")

// returnDistinct makes the returns at some places, each of another task or token, and fills in the
// verdicts on them.
func (s *Store) returnDistinct(
	ctx context.Context, returns []Return, places []int, verdicts []error, mode returnMode,
	last ...pg.Step,
) error {
	switch {
	case len(places) > 0:
	case len(last) > 0:
		return s.db.Run(ctx, last...)
	default:
		return s.db.CheckOpen(ctx)
	}
	all := newReturnBatch(returns, places, s.triesKept > 0)
	all.again = mode.again
	if all.shares() {
		s.splitOff(ctx, all.plain())
	}
	if err := s.returnAtOnce(ctx, all, mode, last); err != nil {
		return err
	}
	refused, err := all.refused(), errSecondLook
	if !mode.noWait {
		refused, err = s.returnRefused(ctx, returns, refused, verdicts)
		if s.db.InTx() && err != nil && !errors.Is(err, errUnstable) {
			return err
		}
	}
	for _, i := range refused { // what was returned above stays returned
		verdicts[i] = err
		if errors.Is(err, errUnstable) {
			verdicts[i] = &TaskError{IDs: []TaskID{returns[i].ID}, Err: err}
		}
	}
	return nil
}

// returnAtOnce makes the returns of a batch and runs the last steps, in one round trip. Large
// results go ahead of the last steps, in a transaction of their own, in which time on a slow line
// does not count as silence of the database.
func (s *Store) returnAtOnce(
	ctx context.Context, all *returnBatch, mode returnMode, last []pg.Step,
) error {
	if len(last) > 0 && all.resultBytes() > s.pieceBytes {
		err := s.transact(ctx, func(s *Store) error { return s.returnAtOnce(ctx, all, mode, nil) })
		if err == nil {
			err = s.db.Run(ctx, last...)
		}
		return err
	}
	rounds := roundsNone
	if all.signals() {
		rounds = roundsUsual
	}
	return s.settleReturns(ctx, all, rounds, pg.LimitWaiting(mode.noWait), last...)
}

// settleReturns makes the returns of a batch between other steps. Large results go piece by piece,
// in one transaction, so that neither side holds them all once more than it must. What the returns
// mean for other tasks is settled with the last piece: so nobody waits for the locks of these tasks
// while results are on their way, and all of them are locked in one order.
func (s *Store) settleReturns(
	ctx context.Context, all *returnBatch, rounds int, first []pg.Step, last ...pg.Step,
) error {
	pieces := all.pieces()
	if len(pieces) == 1 {
		posted, known := all.posted(), &pg.Notices{}
		known.AddKeys(kindFinished, posted...)
		return s.settle(ctx, rounds, known, func(at settling) []pg.Step {
			return append(slices.Clone(first), s.returnSteps(all, at)...)
		}, last...)
	}
	return s.settleBy(ctx, nil, roundsUsual, nil, func(at settling, settle []pg.Step) error {
		return s.transact(ctx, func(s *Store) error {
			steps := slices.Clone(first)
			var batches []int64
			for n, piece := range pieces {
				of := settling{at.batch + 1 + int64(n), roundsUsual, at.pending}
				batches = append(batches, of.batch)
				steps = append(steps, s.returnSteps(piece, of)...)
				if n == len(pieces)-1 {
					gather := []any{batches, at.batch, at.round}
					steps = append(steps, pg.Step{Name: "gather_signals", Args: gather})
					steps = slices.Concat(steps, settle, last)
				}
				err := s.db.Do(ctx, pg.Request{Steps: steps, Collides: leasePart})
				if err != nil {
					return err
				}
				steps = nil
			}
			return nil
		})
	})
}

// returnRefused looks again at returns that were refused, until there is a verdict on each. It
// returns the places of the returns that have none, and the reason.
func (s *Store) returnRefused(
	ctx context.Context, returns []Return, refused []int, verdicts []error,
) ([]int, error) {
	for range attemptsMax {
		if len(refused) == 0 {
			return nil, nil
		}
		pieces := newReturnBatch(returns, refused, s.triesKept > 0).pieces()
		refused = nil
		for n, piece := range pieces {
			again, err := s.returnLate(ctx, returns, piece.places(), verdicts)
			if err != nil {
				for _, piece := range pieces[n:] {
					refused = append(refused, piece.places()...)
				}
				return refused, err
			}
			refused = append(refused, again...)
		}
	}
	return refused, errUnstable
}

// returnLate gives refused returns a second look, as a late owner has a right to, and judges the
// returns that are refused again. It returns the places of those whose token is good after all:
// they need another look. Whatever the verdicts say is safe by then: see wait_for_commit.
func (s *Store) returnLate(
	ctx context.Context, returns []Return, refused []int, verdicts []error,
) ([]int, error) {
	all := newReturnBatch(returns, refused, s.triesKept > 0)
	all.isLate = true
	judgements, ids := make([]judgement, len(refused)), make([]string, len(refused))
	for n, i := range all.chosen {
		ids[n] = string(returns[i].ID)
	}
	judge := pg.Step{
		Name: "explain_refusals", Args: []any{all.keys, all.claims, ids},
		Read: readJudgements(judgements),
	}
	revive := pg.Step{Name: "revive_tasks", Args: []any{all.keys, all.claims, nil, nil, true}}
	err := s.settle(ctx, roundsUsual, nil, func(at settling) []pg.Step {
		steps := append([]pg.Step{revive}, s.returnSteps(all, at)...)
		return append(steps, all.noteLate()...)
	}, judge, pg.Step{Name: "wait_for_commit", NoPlanner: true})
	if err != nil {
		return nil, err
	}
	var again []int
	for n, i := range all.chosen {
		switch {
		case all.settled[n]:
		case judgements[n].owned, judgements[n].unsaid && returns[i].outcome() == outcomePending:
			again = append(again, i)
		default:
			verdicts[i] = judgements[n].verdict(returns[i])
		}
	}
	return again, nil
}

// A returnBatch holds returns in the form of return_tasks: returns that say the same of tasks with
// consecutive keys are one span.
type returnBatch struct {
	returns []Return
	// chosen are places in returns, sorted by key; keys and claims are what the tokens of these
	// stand for.
	chosen       []int
	keys, claims []int64
	spans        []returnSpan
	settled      []bool // by place in chosen
	isLate       bool   // it was refused before
	again        bool
}

// A returnSpan is returns that are alike.
type returnSpan struct {
	ownedSpan
	outcome int16
	posts   bool
	first   int // the place of the first in chosen
}

// newReturnBatch makes a batch of the returns at some places.
// With logs, those with a log stand alone, since they are kept.
func newReturnBatch(returns []Return, places []int, logs bool) *returnBatch {
	type placed struct {
		performance
		place int
	}
	sorted := make([]placed, len(places))
	for n, i := range places {
		sorted[n] = placed{returns[i].performance(), i}
	}
	slices.SortFunc(sorted, func(a, b placed) int {
		return comparePerformances(a.performance, b.performance)
	})
	b := &returnBatch{
		returns: returns, chosen: make([]int, len(sorted)), settled: make([]bool, len(sorted)),
	}
	performances := make([]performance, len(sorted))
	for n, p := range sorted {
		b.chosen[n], performances[n] = p.place, p.performance
	}
	b.keys, b.claims = keysAndClaims(performances)
	for n, p := range performances {
		r := &returns[b.chosen[n]]
		if n > 0 && follows(performances, n) && alike(&returns[b.chosen[n-1]], r) &&
			(!logs || r.Log == "" && returns[b.chosen[n-1]].Log == "") {
			b.spans[len(b.spans)-1].hi = p.key
			continue
		}
		b.spans = append(b.spans, returnSpan{
			ownedSpan: ownedSpan{span{p.key, p.key}, p.claim}, outcome: r.outcome(),
			posts: numbering.HintsOf(r.Token).Posts, first: n,
		})
	}
	return b
}

// alike reports whether two returns say the same, and so little that a row of finished can stand
// for both.
func alike(a, b *Return) bool {
	plain := func(r *Return) bool {
		return r.outcome() < outcomePending && r.Status == "" && r.Result == nil &&
			!numbering.HintsOf(r.Token).Posts && r.Spent == nil
	}
	return a.Code == b.Code && plain(a) && plain(b)
}

// shares reports whether tasks of the batch share rows of leased with others.
func (b *returnBatch) shares() bool {
	return b.hinted(func(h numbering.Hints) bool { return h.Shares })
}

// signals reports whether tasks may wait for some of the batch.
func (b *returnBatch) signals() bool {
	return b.hinted(func(h numbering.Hints) bool { return h.Signals })
}

// limited reports whether the actions of some tasks of the batch had limits.
func (b *returnBatch) limited() bool {
	return b.hinted(func(h numbering.Hints) bool { return h.Limited })
}

// spent reports whether a return of the batch says what was spent.
func (b *returnBatch) spent() bool {
	return slices.ContainsFunc(b.chosen, func(i int) bool { return b.returns[i].Spent != nil })
}

// hinted reports whether a task of the batch has a hint.
func (b *returnBatch) hinted(has func(numbering.Hints) bool) bool {
	return slices.ContainsFunc(b.chosen, func(i int) bool {
		return has(numbering.HintsOf(b.returns[i].Token))
	})
}

// posted are the keys of tasks that end and post their results.
func (b *returnBatch) posted() []int64 {
	var keys []int64
	for _, span := range b.spans {
		if span.posts && span.outcome < outcomePending {
			keys = append(keys, span.lo)
		}
	}
	return keys
}

// plain are the spans of the batch, sorted.
func (b *returnBatch) plain() []span {
	spans := make([]span, len(b.spans))
	for i, span := range b.spans {
		spans[i] = span.span
	}
	return spans
}

// returnColumns are what the spans of a batch are, and how they end, as parameters of a statement.
type returnColumns struct {
	lo, hi, claims []int64
	outcomes       []int16
	posts          []bool
}

func (b *returnBatch) columns() returnColumns {
	n := len(b.spans)
	c := returnColumns{
		lo: make([]int64, n), hi: make([]int64, n), claims: make([]int64, n),
		outcomes: make([]int16, n), posts: make([]bool, n),
	}
	for i, span := range b.spans {
		c.lo[i], c.hi[i], c.claims[i] = span.lo, span.hi, int64(span.claim)
		c.outcomes[i], c.posts[i] = span.outcome, span.posts
	}
	return c
}

// resultBytes is how many bytes the results of the batch have.
func (b *returnBatch) resultBytes() (sum int) {
	for _, span := range b.spans {
		sum += len(b.returns[b.chosen[span.first]].Result)
	}
	return sum
}

// pieces cuts the batch up, so that the results of a piece have 8 MiB together at most, or there is
// only one.
func (b *returnBatch) pieces() (pieces []*returnBatch) {
	const most = bodies.MostDefault
	from, sum := 0, 0
	for to, span := range b.spans {
		size := len(b.returns[b.chosen[span.first]].Result)
		if sum += size; sum > most && to > from {
			piece := *b
			piece.spans = b.spans[from:to]
			pieces, from, sum = append(pieces, &piece), to, size
		}
	}
	rest := *b
	rest.spans = b.spans[from:]
	return append(pieces, &rest)
}

// part is where the spans of the batch, a piece of another perhaps, begin and end in chosen.
func (b *returnBatch) part() (from, to int) {
	first, last := b.spans[0], b.spans[len(b.spans)-1]
	return first.first, last.first + int(last.hi-last.lo) + 1
}

// places are those of the returns of the batch, a piece of another perhaps.
func (b *returnBatch) places() []int {
	from, to := b.part()
	return b.chosen[from:to]
}

// refused are the places of the returns that were not settled.
func (b *returnBatch) refused() []int {
	var refused []int
	for n, i := range b.chosen {
		if !b.settled[n] {
			refused = append(refused, i)
		}
	}
	return refused
}

// returnSteps return the tasks of a batch.
func (s *Store) returnSteps(b *returnBatch, at settling) []pg.Step {
	var steps []pg.Step
	if b.shares() {
		steps = append(steps, splitLeased(b.plain()))
	}
	c, n := b.columns(), len(b.spans)
	statuses, results := make([]*string, n), make([][]byte, n)
	retries, spent := make([]*time.Duration, n), make([]*int, n)
	for i, span := range b.spans {
		r := &b.returns[b.chosen[span.first]]
		statuses[i], results[i], spent[i] = statusText(r.Status), r.Result, r.Spent
		if r.RetryAfter > 0 {
			retries[i] = &r.RetryAfter
		}
	}
	switch {
	case !s.db.InTx() && s.limits.Known.Unkeyed():
		steps = append(steps, s.limits.NoteTaken(c.lo, c.hi, c.claims, at.pending))
	case b.limited() || s.limits.Known.Any():
		tasks := limit.Returned{Lo: c.lo, Hi: c.hi, Claims: c.claims, Outcomes: c.outcomes}
		steps = append(steps, s.limits.UnparkReturned(s.db.InTx(), tasks, at.pending))
	}
	steps = append(steps, s.rememberTries(b)...)
	if b.spent() {
		steps = append(steps, pg.Step{
			Name: "note_spent", Args: []any{c.lo, c.hi, c.claims, spent},
		})
	}
	if b.isLate { // whoever makes a task wait for one of these does so ahead of the look
		steps = append(steps, pg.Step{Name: "hold_ownership", Args: []any{b.keys, b.claims}})
	}
	dropsCompleted, dropsAborted := s.keep.Drops()
	end := pg.Step{
		Name: "return_final",
		Args: []any{
			c.lo, c.hi, c.claims, c.outcomes, c.posts, statuses, results, !s.db.InTx(),
		},
		Read: func(rows pgx.Rows) error { return b.readSettled(rows, at.pending) },
	}
	const large = 1 << 10 // bytes of a result, on the average
	isLarge := b.resultBytes() > large*n
	if dropsCompleted || dropsAborted || isLarge || !b.isPlain() {
		end.Name = "return_tasks"
		end.Args = append(end.Args,
			retries, !dropsCompleted, !dropsAborted, at.batch, at.round)
	}
	if isLarge {
		end.Name = "return_large"
		begins, sizes, joined := bodies.Join(results)
		end.Args[6] = make([][]byte, n)
		end.Args = append(end.Args, begins, sizes, joined)
	}
	return append(steps, end)
}

// isPlain reports whether all tasks of the batch end, and have no dependents as far as is known.
// Where spending is noted, none may turn out to have some: the note would stay without the return.
func (b *returnBatch) isPlain() bool {
	goesOn := func(span returnSpan) bool { return span.outcome >= outcomePending }
	return !b.isLate && !b.again && !b.signals() && !b.spent() &&
		!slices.ContainsFunc(b.spans, goesOn)
}

// noteLate accepts returns for another try whose task ended because its last try expired, if there
// may be any.
func (b *returnBatch) noteLate() []pg.Step {
	var places []int
	var keys, claims []int64
	var statuses []*string
	var spent []*int
	for n, i := range b.chosen {
		if r := &b.returns[i]; r.outcome() == outcomePending {
			places, spent = append(places, n), append(spent, r.Spent)
			keys, claims = append(keys, b.keys[n]), append(claims, b.claims[n])
			statuses = append(statuses, statusText(r.Status))
		}
	}
	if len(places) == 0 {
		return nil
	}
	return []pg.Step{{
		Name: "note_late", Args: []any{keys, claims, statuses, spent},
		Read: func(rows pgx.Rows) error {
			var place int
			_, err := pgx.ForEachRow(rows, []any{&place}, func() error {
				b.settled[places[place-1]] = true
				return nil
			})
			return err
		},
	}}
}

// readSettled marks the returns that were settled, and notes the changes that others may wait for.
func (b *returnBatch) readSettled(rows pgx.Rows, pending *pg.Notices) error {
	from, to := b.part()
	clear(b.settled[from:to])
	for rows.Next() {
		var place int
		var of span
		var finished bool
		var ready *string // the action of tasks that are tried again
		if err := rows.Scan(&place, &of.lo, &of.hi, &finished, &ready); err != nil {
			return err
		}
		span := &b.spans[place-1]
		for key := of.lo; key <= of.hi; key++ {
			b.settled[span.first+int(key-span.lo)] = true
		}
		if finished && span.posts {
			pending.AddKeys(kindFinished, span.lo)
		}
		if ready != nil {
			pending.Add(readyTopic(*ready))
		}
	}
	return rows.Err()
}

// A judgement is what explain_refusals says of a refused token.
type judgement struct {
	known   bool
	cause   *int16
	pending bool // the token returned the task for another try
	owned   bool
	// unsaid says that the task ended because its last try expired, and that its owner has not said
	// why the try failed.
	unsaid bool
}

func readJudgements(into []judgement) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var place int
			var j judgement
			err := rows.Scan(&place, &j.known, &j.cause, &j.pending, &j.owned, &j.unsaid)
			if err != nil {
				return err
			}
			into[place-1] = j
		}
		return rows.Err()
	}
}

func (j judgement) verdict(r Return) error {
	err := ErrInvalidToken
	switch {
	case !j.known:
		err = fmt.Errorf("%w: %w", ErrInvalidToken, ErrTaskNotFound)
	case j.pending && r.Code == StatusPending, j.cause != nil && causedBy(r) == *j.cause,
		j.cause != nil && (*j.cause == causeTries || *j.cause == causeLost) &&
			r.Code == StatusPending && !r.Release:
		err = ErrAlreadyReturned
	}
	return &TaskError{IDs: []TaskID{r.ID}, Err: err}
}

// causedBy is the cause that a return writes to the table finished, or -1.
func causedBy(r Return) int16 {
	if code := r.outcome(); code <= 1 {
		return code
	}
	return -1
}

// rememberTries keeps the returns of a batch that do not end their tasks, whose end the table
// finished does not hold, and those with a log.
func (s *Store) rememberTries(b *returnBatch) []pg.Step {
	if s.triesKept == 0 {
		return nil
	}
	n := len(b.spans)
	kept, statuses, logs := make([]bool, n), make([]*string, n), make([]*string, n)
	for i, span := range b.spans {
		r := &b.returns[b.chosen[span.first]]
		if kept[i] = span.outcome >= outcomePending || r.Log != ""; kept[i] {
			statuses[i], logs[i] = statusText(r.Status), logText(r.Log)
		}
	}
	if !slices.Contains(kept, true) {
		return nil
	}
	c := b.columns()
	dropsCompleted, dropsAborted := s.keep.Drops()
	return []pg.Step{{
		Name: "remember_tries",
		Args: []any{
			c.lo, c.hi, c.claims, kept, c.outcomes, c.posts, statuses, logs,
			!dropsCompleted, !dropsAborted,
		},
	}}
}

const logBytesMax = 16 << 10

// logText makes any text storable, as statusText does, but keeps the end of a long one.
func logText(text string) *string {
	if text == "" {
		return nil
	}
	end := safely.NewTail(logBytesMax)
	_, _ = end.Write([]byte(text[max(len(text)-2*logBytesMax, 0):]))
	text = end.Text(logBytesMax)
	return &text
}
