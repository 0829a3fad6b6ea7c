package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/numbering"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/queuefloors"
	"github.com/stint-tasks/stint/internal/session"
)

// OwnTasks makes actor the owner of up to maxTasks ready tasks with one of the actions, and returns
// them: the highest priority first and, within a priority, the oldest first. It does not wait: if
// nothing is ready, the answer is empty, without an error. It passes over tasks that somebody else
// is taking at that moment (R7).
//
// Each task is owned until it is returned, or until lease has passed since the call on the
// database's clock; [Store.ExtendTasksOwnership] extends the lease. Once it has expired, the task
// is ready for others, and as soon as one of them owns it, this token is refused with
// [ErrInvalidToken]. A lease is between a microsecond and ten years, or [NoExpiry].
//
// Concurrent calls share a statement if their actors, actions and leases are the same, so one actor
// per process is faster than one per goroutine.
//
// maxTasks must be positive; above 100,000 it counts as 100,000. An [*ArgumentError] refuses values
// beyond the limits, no actions, [Spontaneous] and [External], and in a transaction actions with
// limits; [ErrCopy] refuses all in a copy.
//
// An answer has as many tasks as have 8 MiB of bodies together, besides bodies of up to 2 KiB, and
// always one: the rest is given back, with its tries refunded. While large bodies are on their way
// the leases are extended. The call may take as long as a slow line needs, but it fails if the
// database is silent for ten seconds, or the pool has a connection for nobody for as long; what it
// may have fetched is then given back in the background.
//
// If the connection breaks before the answer arrives, the call asks on other connections for the
// tasks that it may have been given, for ten seconds if it must. If the database stays away for
// longer, or ctx ends during the call, or the answer cannot be read, the call fails, and the store
// gives the tasks back, with their tries refunded: in the background, until that has succeeded or
// the lease has expired. [Store.Close] waits for that for five seconds. Only then may tasks be left
// without an owner until their lease expires.
func (s *Store) OwnTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	answer, err := s.ownTasks(ctx, ownRequest{Want: Want{actor, maxTasks, actions, lease}})
	if err != nil {
		return nil, fmt.Errorf("own tasks: %w", err)
	}
	return answer.tasks, nil
}

// An ownAnswer is what one caller of OwnTasks or WaitToOwnTasks gets.
type ownAnswer struct {
	tasks []OwnedTask
	// verdicts are those on the returns of the call.
	verdicts []error
	next     nextDue // for a caller that awaits, if there are no tasks
	// chosen is the claim, if the caller has chosen it, and actor the owner.
	chosen Claim
	actor  ActorID
	lease  time.Duration
}

// ownTasks owns tasks. If the request awaits and there are none, the answer says what to wait for.
func (s *Store) ownTasks(ctx context.Context, request ownRequest) (ownAnswer, error) {
	if err := request.check(); err != nil {
		return ownAnswer{}, err
	}
	if err := s.db.CheckOpen(ctx); err != nil {
		return ownAnswer{}, err
	}
	s.owning()
	request.MaxTasks = min(request.MaxTasks, ownedTasksMax)
	call := exchange{request.returns, request.MaxTasks}
	if s.db.InTx() || call.size()-call.maxTasks > groupcommit.SizeMax/2 {
		answer, err := s.fetch(ctx, request)
		if err != nil {
			return ownAnswer{}, err
		}
		return ownAnswer{tasks: answer.tasks(), verdicts: answer.verdicts}, nil
	}
	key := ownKey{
		actor: request.Actor, actions: strings.Join(request.Actions, "\x00"),
		lease: request.Lease, awaits: request.awaits,
		chosen: request.chosen,
	}
	if request.chosen.isSet() {
		key.alone = s.claims.Add(1)
	}
	answer, err := s.owns.Do(ctx, key, call)
	if err != nil && ctx.Err() != nil && request.chosen.isSet() { // the fetch may go on and fail
		s.goOn(request.Lease, s.abandoning(request.chosen.claim(), request.Actor))
	}
	return answer, err
}

// An ownKey is what calls of OwnTasks must have in common to share a batch. NUL joins the actions,
// since no action holds one.
type ownKey struct {
	actor   ActorID
	actions string
	lease   time.Duration
	awaits  bool
	// chosen is the claim of the caller's, if it has chosen one; alone is then a number of the
	// call's own, since a claim cannot be shared.
	chosen Claim
	alone  int64
}

// ownTogether owns tasks for several callers under one lease, and shares them out in the order of
// the calls.
func (s *Store) ownTogether(
	ctx context.Context, key ownKey, calls []exchange, _ bool,
) ([]ownAnswer, error) {
	var returns []Return
	all, singly := 0, true
	for _, call := range calls {
		returns, all = append(returns, call.returns...), all+call.maxTasks
		singly = singly &&
			(call.maxTasks == 1 || len(call.returns) > 0 && call.maxTasks <= singlyMax)
	}
	actions := strings.Split(key.actions, "\x00")
	answer, err := s.fetch(ctx, ownRequest{
		Want{key.actor, all, actions, key.lease},
		key.awaits, key.chosen, returns,
		singly && all <= singlyMax, // together, many are rather returned as they were fetched
	})
	if err != nil {
		return nil, err
	}
	answers, tasks := make([]ownAnswer, len(calls)), answer.tasks()
	for i, call := range calls {
		n, own := len(call.returns), min(call.maxTasks, len(tasks))
		answers[i] = ownAnswer{
			tasks[:own:own], answer.verdicts[:n:n], answer.next, key.chosen, key.actor,
			key.lease,
		}
		answer.verdicts = answer.verdicts[n:]
		if own == 0 && len(answer.rows) > 0 { // nobody asked whether there are more
			answers[i].next.contended = true
		}
		tasks = tasks[own:]
	}
	return answers, nil
}

func (r *ownRequest) check() error {
	if r.MaxTasks <= 0 {
		return argumentError("maxTasks", "must be positive")
	}
	if err := checkActor(r.Actor, r.Actions); err != nil {
		return err
	}
	return checkLease(r.Lease)
}

// An ownRequest is the request of one call of OwnTasks, or of several calls with one ownKey.
type ownRequest struct {
	Want

	awaits bool  // asks what to wait for if there are no tasks
	chosen Claim // by the caller, if it has chosen one
	// returns are made in the transaction of the fetch. There may be some only outside of a
	// transaction.
	returns []Return
	singly  bool // each task is to be returned by itself
}

// A fetch is an ownRequest under way: its steps, and what they answer.
type fetch struct {
	ownRequest
	store *Store
	claim claim
	taken bool // the claim is the caller's, and was or may have been used before
	scan  queuefloors.Scan

	rows []ownedRow
	// met is how many ready tasks there were, as far as the fetch has looked; 0: not known.
	met      int64
	next     nextDue
	verdicts []error // on the returns; nil until they are made
	// tried says that returns were sent; made that they were before those whose verdicts these are.
	tried, made bool
	underLimits
	// unread says that an answer came that could not be read; reading that the tasks are owned, and
	// bodies are yet to be read.
	unread, reading bool
	// unknown says that it is not known what was fetched under the claim; repeated that the
	// call has repeated itself under a claim that the caller has chosen.
	unknown, repeated bool
	// floors are the least ranks of ready tasks, by action: one for each priority found.
	floors map[string][]int64
	// pending is what others may wait for.
	pending pg.Notices
	// room is what the caller wants to be asked for ahead of long bodies, nil if it does not.
	// Refused says that there was none.
	room    callctx.Room
	refused bool
}

// fetch makes an actor the owner of tasks.
func (s *Store) fetch(ctx context.Context, request ownRequest) (*fetch, error) {
	if !s.db.InTx() {
		s = s.on(s.db.WithAnswerLimit())
	}
	s = s.on(s.db.Acting())
	request.MaxTasks = s.sizes.Most(request.Actions, request.MaxTasks)
	h := &fetch{ownRequest: request, store: s}
	if request.chosen.isSet() { // else the call shares its fetch with others
		h.room = callctx.RoomOf(ctx)
	}
	told := s.awaiting.Told()
	err := h.choose()
	if h.taken = h.chosen.Repeated; err == nil && !h.taken {
		err = h.run(ctx)
	}
	if !s.db.InTx() && pg.WasCutOff(err) && ctx.Err() == nil && !errors.Is(err, pg.ErrSilent) {
		err = h.recover(ctx)
	}
	if h.taken || h.chosen.isSet() && pg.Violates(err, leasePart) {
		h.taken = true
		err = h.insist(ctx, func() error { return h.again(ctx) })
	}
	if err == nil {
		err = h.readBodies(ctx)
	}
	if err == nil {
		err = h.judgeReturns(ctx)
	}
	if err != nil {
		err = h.fail(ctx, err)
		if h.tried {
			err = &undecidedError{err}
		}
		return nil, err
	}
	if !s.db.InTx() {
		s.queues.Learn(h.scan, h.floors)
		if h.tookAll() {
			s.awaiting.Emptied(h.Actions, told, len(h.rows) == 0)
		}
	}
	if h.scan.Partial && len(h.rows) == 0 && !h.isFull() {
		pause := s.queues.Pause(h.Actions)
		h.next.pause = &pause
	}
	if !h.taken {
		for i := range h.rows {
			s.stats.Count(h.rows[i].task.Action, h.rows[i].task.Try > 1)
		}
	}
	if len(h.rows) > 0 && s.watch.Stir() {
		h.pending.Add(session.Busy)
	}
	s.db.Notify(ctx, &h.pending)
	return h, nil
}

// tookAll reports whether no ready task was left, as far as the fetch has looked. Limits may
// leave some.
func (h *fetch) tookAll() bool {
	switch n := len(h.rows); {
	case len(h.bounds) > 0 || h.taken:
		return false
	case n > 0:
		return n < h.MaxTasks && 0 < h.met && h.met <= int64(n)
	}
	return h.awaits && !h.next.contended && !h.next.overdue
}

// run scans the queues once and, if it finds nothing, perhaps again.
func (h *fetch) run(ctx context.Context) error {
	if err := h.ownFirst(ctx); err != nil || len(h.rows) > 0 || h.taken || len(h.returns) > 0 {
		return err
	}
	if h.awaits { // only now: tasks that are ready must not wait for this
		if err := h.store.db.Run(ctx, h.dueSteps()...); err != nil {
			return err
		}
		if !h.scan.Whole || !h.next.contended && !h.next.overdue {
			return nil
		}
	}
	return h.ownAgain(ctx)
}

// ownFirst fetches from the queues, perhaps only from where their rows begin.
func (h *fetch) ownFirst(ctx context.Context) error {
	h.scan = h.store.queues.Scan(h.Actions, false)
	asked := h.store.stats.Asked(h.store.db, h.Actions)
	return h.fetchUnder(ctx, func() []pg.Step {
		steps := h.fetchSteps()
		if h.chosen.isSet() {
			steps = append(steps, h.look())
		}
		return append(steps, asked...)
	})
}

// choose sets the claim: a new one, unless the caller has chosen it.
func (h *fetch) choose() (err error) {
	if h.chosen.isSet() {
		h.claim = h.chosen.claim()
		return nil
	}
	h.claim, err = newClaim()
	return err
}

// ownAgain fetches from the whole queues. Before that it makes tasks ready that are due, or whose
// leases have expired by now. Besides, tasks that others were taking a moment ago may be free
// again.
func (h *fetch) ownAgain(ctx context.Context) error {
	scheduled, leases := scanScheduled(), h.store.scanLeases(reclaimedLeaseMax)
	h.scan = h.store.queues.Scan(h.Actions, true)
	err := h.fetchUnder(ctx, func() []pg.Step {
		steps := append([]pg.Step{scheduled.step(), leases.step()}, h.fetchSteps()...)
		if len(h.scan.Actions) > 1 && len(h.bounds) == 0 {
			steps = append(steps, h.ownOfEach())
		}
		if h.chosen.isSet() {
			steps = append(steps, h.look())
		}
		if h.awaits {
			steps = append(steps, h.dueSteps()...)
		}
		return steps
	})
	if err != nil {
		return err
	}
	h.store.addNotices(scheduled, &h.pending)
	h.store.addNotices(leases, &h.pending)
	return nil
}

// own fetches the tasks that are first in the queues.
func (h *fetch) own() pg.Step { return h.ownStep(false, h.read) }

// ownOfEach fetches some tasks of each queue if the own before it fetched nothing: others may
// be taking all tasks at the heads of the queues.
func (h *fetch) ownOfEach() pg.Step { return h.ownStep(true, h.readMore) }

func (h *fetch) ownStep(spread bool, read func(pgx.Rows) error) pg.Step {
	name := "own_tasks"
	switch few := len(h.scan.Actions) <= fewQueues; {
	case few && h.singly:
		name = "own_singly"
	case few:
		name = "own_few"
	}
	return pg.Step{
		Name: name,
		Args: []any{
			int64(h.claim), string(h.Actor), h.MaxTasks, h.scan.Actions, interval(h.Lease),
			h.sessionID(), h.scan.From, h.scan.To, spread, h.chosen.isSet(),
			h.budget().Inline(), h.store.pieceBytes, h.budget().Short(),
		},
		Read: read,
	}
}

// sessionID is the session that the lease is bound to, or nil.
func (h *fetch) sessionID() *int64 {
	if h.chosen.Session != 0 {
		return &h.chosen.Session
	}
	return h.store.session.Of(string(h.Actor))
}

// due asks what there is to wait for.
func (h *fetch) due(scan queuefloors.Scan) pg.Step {
	return pg.Step{
		Name: "next_due",
		Args: []any{scan.Actions, int64(h.claim), scan.From, scan.To, scan.Whole, true},
		Read: h.readNext,
	}
}

type ownedRow struct {
	key  int64
	size int   // of the body, also if that is yet to be read
	rank int64 // places the span in the queue
	task OwnedTask
}

// ownedColumns are what a row of an answer is scanned into, the same ones for all rows.
type ownedColumns struct {
	key, rank                      int64
	id                             string
	body                           []byte
	try, triesLimit                int32
	size, completed, aborted       pgtype.Int4
	floor, met                     pgtype.Int8
	deadline, insertedAt           pgtype.Timestamptz
	limitKey, headers              pgtype.Text
	signals, posts, alone, limited bool
}

// actionColumn is the number of the action in an answer. Mostly all tasks have the same, so it is
// not scanned.
const actionColumn = 2

func (h *fetch) read(rows pgx.Rows) error {
	h.rows, h.floors, h.met = h.rows[:0], map[string][]int64{}, 0
	var c ownedColumns
	into := []any{
		&c.key, &c.id, nil, &c.body, &c.size, &c.try, &c.triesLimit, &c.deadline, &c.completed,
		&c.aborted, &c.signals, &c.posts, &c.alone, &c.rank, &c.floor, &c.limitKey, &c.limited,
		&c.insertedAt, &c.headers, &c.met,
	}
	action := ""
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return h.cannotRead(err)
		}
		if raw := rows.RawValues()[actionColumn]; string(raw) != action {
			action = string(raw)
		}
		if c.key == 0 {
			h.limited[action] = limit.Kind{}
			continue
		}
		if h.met = c.met.Int64; cap(h.rows) == 0 {
			h.rows = make([]ownedRow, 0, min(h.met, int64(h.MaxTasks)))
		}
		if err := h.add(&c, action); err != nil {
			return h.cannotRead(err)
		}
	}
	return rows.Err()
}

// add adds a task that was fetched.
func (h *fetch) add(c *ownedColumns, action string) error {
	had, err := headers.Decode(c.headers.String)
	if err != nil {
		return err
	}
	if of := h.spanOf(c.key); of != nil {
		c.rank, c.signals, c.alone = of.rank, of.signals, of.lo == of.hi
		c.floor = pgtype.Int8{Valid: of.floor != nil, Int64: pg.OrZero(of.floor)}
	}
	id := TaskID(c.id)
	hint := numbering.Hints{
		Signals: c.signals, Posts: c.posts, Shares: !c.alone, Limited: c.limited,
	}
	h.rows = append(h.rows, ownedRow{
		key: c.key, size: int(c.size.Int32), rank: c.rank,
		task: OwnedTask{
			ID: id, Action: action, Key: c.limitKey.String, Body: c.body, Headers: had,
			Token: newToken(h.claim, c.key, id, hint), InsertedAt: finite(c.insertedAt),
			Try: int(c.try), MaxTries: maxTries(c.triesLimit), LeaseUntil: finite(c.deadline),
			Completed: int(c.completed.Int32), Aborted: int(c.aborted.Int32),
		},
	})
	if c.floor.Valid && !slices.Contains(h.floors[action], c.floor.Int64) {
		h.floors[action] = append(h.floors[action], c.floor.Int64)
	}
	return nil
}

// readMore reads the answer of a second own_tasks, unless the first one has found tasks.
func (h *fetch) readMore(rows pgx.Rows) error {
	if len(h.rows) > 0 {
		rows.Close()
		return rows.Err()
	}
	defer func() { h.met = 0 }() // it does not look at all that is ready
	return h.read(rows)
}

// readNext reads what there is to wait for. There is no such answer if own_tasks has found tasks.
func (h *fetch) readNext(rows pgx.Rows) error {
	if err := h.next.read(rows); err != nil {
		return h.cannotRead(err)
	}
	return nil
}

func (h *fetch) cannotRead(err error) error {
	h.unread = true
	return err
}

// A nextDue tells a caller that was given nothing what to wait for: the answer of next_due.
type nextDue struct {
	contended, overdue bool
	// due is how long it is until something is due; pause is how long it is until the caller looks
	// again, for tokens or with a scan of the whole queues.
	due, pause *time.Duration
}

func (n *nextDue) read(rows pgx.Rows) error {
	for rows.Next() { // at most one
		if err := rows.Scan(&n.contended, &n.overdue, &n.due); err != nil {
			return err
		}
	}
	return rows.Err()
}

// own_few fetches tasks of at most fewQueues queues, and own_singly up to singlyMax for callers
// that will return them one by one: those that want one, and those that return some.
const fewQueues, singlyMax = 2, 64

// An exchange is what calls that share a fetch ask for: how many tasks, in the place of those
// that they return.
type exchange struct {
	returns  []Return
	maxTasks int
}

func (e exchange) size() int       { return returnsSize(e.returns) + e.maxTasks }
func (e exchange) clone() exchange { return exchange{cloneReturns(e.returns), e.maxTasks} }

// returnFirst makes the returns of a fetch in the transaction of its first steps. Under limits
// these lock what a return may wait for, so there the returns come ahead, in another transaction.
func (h *fetch) returnFirst(ctx context.Context, steps []pg.Step) (err error) {
	along, alone := steps, []pg.Step(nil)
	if len(h.bounds) > 0 {
		along, alone = nil, steps
	}
	// An attempt that failed may have made the returns all the same.
	h.made, h.tried = h.tried, true
	h.verdicts, err = h.store.returnPromptly(ctx, h.returns, returnMode{noWait: true}, along...)
	if err != nil || len(alone) == 0 {
		return err
	}
	if slices.ContainsFunc(h.returns, func(r Return) bool { return r.Spent != nil }) {
		if err = h.prepare(ctx); err != nil {
			return err
		}
	}
	return h.store.db.Run(ctx, alone...)
}

// judgeReturns judges the returns that were made along with a fetch. Where that was cut off, and
// what it fetched was found all the same, so were the returns: they are made again, to know.
func (h *fetch) judgeReturns(ctx context.Context) (err error) {
	if len(h.returns) == 0 {
		return nil
	}
	if h.verdicts == nil {
		h.reading = true // until the verdicts are known, the tasks cannot be delivered
		err = h.insist(ctx, func() error { return h.returnFirst(ctx, nil) })
		if err != nil {
			return err
		}
		h.reading = false
	}
	made := make([]bool, len(h.returns)) // perhaps, by an attempt before
	for i := range made {
		made[i] = h.made
	}
	h.store.judgeReturned(ctx, h.returns, h.verdicts, made)
	return nil
}
