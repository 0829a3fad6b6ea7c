package stint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// NoDeadline asks for a lease that never expires: if its owner dies, the task stays in progress
// until somebody aborts it.
const NoDeadline time.Duration = math.MaxInt64

// An OwnedTask is a task that the caller of [Store.OwnTasks] owns.
type OwnedTask struct {
	ID     TaskID
	Token  Token
	Action string
	Body   []byte

	// Try counts the hand-outs of the task, this one included: 1 at the first.
	Try int

	// MaxTries is at which Try the task is aborted if it is returned as pending; zero if at none.
	MaxTries int

	// Completed and Aborted are how many of the tasks that this one waited for ended so. A
	// spontaneous task that completed stands for those it waited for.
	Completed, Aborted int

	// Deadline is when the lease expires unless it is extended, on the database's clock; zero if it
	// does not expire.
	Deadline time.Time
}

// OwnTasks makes actor the owner of up to maxTasks ready tasks with one of the actions, and returns
// them, those of the highest priority first and then the oldest first. It does not wait: if nothing
// is ready, the answer is empty, and that is no error. Tasks that somebody else is taking at the
// moment are passed over (R7).
//
// Each task is owned until lease has passed on the database's clock, counted from the call, or
// until it is returned; [Store.ExtendTasksOwnership] puts the end off. Once the lease has expired,
// the task is ready for others, and from the moment one of them owns it, this token is refused with
// [ErrInvalidToken]. A lease must be between a microsecond and ten years, or [NoDeadline].
//
// Calls that goroutines make at once travel together, in one statement, if they are of the same
// actor, for the same actions and lease: one actor for a process is faster than one for each of its
// goroutines.
//
// maxTasks must be positive; more than 100,000 count as 100,000. Values beyond the limits, an empty
// list of actions among them, are refused with an [*ArgumentError].
//
// If the connection breaks before the answer has come, the call asks on another one for what it may
// have been given, so that nothing is owned unknowingly. If ctx ends during the call, or the answer
// cannot be read, what it is given is given back, with the tries refunded; [Store.Close] waits for
// that. Only if that fails as well may tasks be owned by nobody, until their lease expires.
func (s *Store) OwnTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	hand, err := s.ownTasks(ctx, actor, maxTasks, actions, lease, false)
	if err != nil {
		return nil, fmt.Errorf("own tasks: %w", err)
	}
	return hand.tasks, nil
}

// A hand is what one caller is handed.
type hand struct {
	tasks []OwnedTask
	next  nextDue // of a caller that awaits, if there are no tasks
}

// A nextDue is what there is to wait for: see next_due.
type nextDue struct {
	contended, overdue bool
	pause              *time.Duration
}

func (n *nextDue) read(rows pgx.Rows) error {
	for rows.Next() { // at most one
		if err := rows.Scan(&n.contended, &n.overdue, &n.pause); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ownTasks owns tasks for a caller that awaits some, or does not.
func (s *Store) ownTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
	awaits bool,
) (hand, error) {
	if err := checkOwn(actor, maxTasks, actions, lease); err != nil {
		return hand{}, err
	}
	if err := s.quiet(ctx); err != nil {
		return hand{}, err
	}
	s.maintainer.owning()
	maxTasks = min(maxTasks, ownedTasksMax)
	if s.tx != nil {
		answer, err := s.handOut(ctx, actor, maxTasks, actions, lease, awaits)
		return hand{tasks: answer.tasks()}, err
	}
	key := ownKey{actor, strings.Join(actions, "\x00"), lease, awaits}
	return s.owning.do(ctx, key, maxTasks)
}

// An ownKey is what calls of OwnTasks have in common that travel together. An action holds no NUL.
type ownKey struct {
	actor   ActorID
	actions string
	lease   time.Duration
	awaits  bool
}

// ownTogether owns tasks for several callers under one lease, and shares them out in the order of
// the calls.
func (s *Store) ownTogether(
	ctx context.Context, key ownKey, wanted []int, _ bool,
) ([]hand, error) {
	all := 0
	for _, n := range wanted {
		all += n
	}
	actions := strings.Split(key.actions, "\x00")
	answer, err := s.handOut(ctx, key.actor, all, actions, key.lease, key.awaits)
	if err != nil {
		return nil, err
	}
	hands, tasks := make([]hand, len(wanted)), answer.tasks()
	for i, n := range wanted {
		n = min(n, len(tasks))
		hands[i] = hand{tasks[:n:n], answer.next}
		if n == 0 && len(answer.rows) > 0 { // what else there is was not asked
			hands[i].next.contended = true
		}
		tasks = tasks[n:]
	}
	return hands, nil
}

// release gives back, with their tries refunded, what a caller was handed that has left.
func (s *Store) release(abandoned hand) {
	ctx, cancel := undoing(context.Background())
	defer cancel()
	parting := &Store{core: s.core, parting: true}
	if err := parting.giveBack(ctx, abandoned.tasks); err != nil {
		s.logger.WarnContext(ctx, "tasks are owned by nobody until their lease expires",
			slog.Int("tasks", len(abandoned.tasks)), slog.Any("error", err))
	}
}

// giveBack returns tasks as if they had not been handed out.
func (s *Store) giveBack(ctx context.Context, tasks []OwnedTask) error {
	if len(tasks) == 0 {
		return nil
	}
	returns := make([]Return, len(tasks))
	for i, task := range tasks {
		returns[i] = Return{ID: task.ID, Token: task.Token, Code: StatusPending, Release: true}
	}
	verdicts, err := s.returnTasks(ctx, returns, false)
	return errors.Join(append(verdicts, err)...)
}

// giveBackUnread gives back what was handed out under a claim, in an answer that cannot be read,
// which shows behind the commit. In the caller's transaction it is behind the savepoint.
func (s *Store) giveBackUnread(ctx context.Context, c claim) error {
	ctx, cancel := undoing(ctx)
	defer cancel()
	within := *s
	within.parting = true
	var tasks []OwnedTask
	err := within.run(ctx, step{
		name: "claimed_spans", args: []any{int64(c)},
		read: func(rows pgx.Rows) error {
			tasks = tasks[:0]
			var of span
			_, err := pgx.ForEachRow(rows, []any{&of.lo, &of.hi}, func() error {
				for key := of.lo; key <= of.hi; key++ {
					// The ID is one of what cannot be read. A return goes by key and claim.
					const id = "unread"
					token := newToken(c, key, id, hints{signals: true, posts: true, shares: true})
					tasks = append(tasks, OwnedTask{ID: id, Token: token})
				}
				return nil
			})
			return err
		},
	})
	if err == nil {
		err = within.giveBack(ctx, tasks)
	}
	if err != nil {
		return fmt.Errorf("give back what was handed out unread: %w", err)
	}
	return nil
}

// handOut makes actor the owner of tasks. One that awaits some is also told what there is to wait
// for.
func (s *Store) handOut(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
	awaits bool,
) (*handOut, error) {
	c, err := newClaim()
	if err != nil {
		return &handOut{}, err
	}
	answer := handOut{claim: c}
	own := s.ownStep(&answer, actor, maxTasks, lease)
	due := func(l queueLook) step {
		return step{
			name: "next_due", args: []any{l.actions, int64(answer.claim), l.from, l.to, l.whole},
			read: answer.readNext,
		}
	}
	look := s.queues.look(actions, false)
	narrowed, err := s.narrow(ctx, look, maxTasks)
	if err != nil {
		return &handOut{}, err
	}
	first := []step{own(narrowed, false)}
	if unheard := s.unheard(actions); len(unheard) > 0 {
		first = append(first, step{name: "note_asked", args: []any{unheard}})
	}
	// What is due or expired by now is ready by rights; and what was being taken by others a moment
	// ago may have been let go.
	scheduled, leases := lookAtScheduled(), lookAtLeases(reclaimedLeaseMax)
	again := func() []step {
		look = s.queues.look(actions, true)
		steps := []step{scheduled.step(), leases.step(), own(look, false)}
		if len(look.actions) > 1 {
			steps = append(steps, own(look, true))
		}
		if awaits {
			steps = append(steps, due(look))
		}
		return steps
	}
	inVain := func() bool { return err == nil && len(answer.rows) == 0 }
	err = s.run(ctx, first...)
	if inVain() && awaits { // not sooner, since what is there shall not be waited for
		err = s.run(ctx, due(look))
	}
	if inVain() && (!awaits || look.whole && (answer.next.contended || answer.next.overdue)) {
		err = s.run(ctx, again()...)
	}
	if s.tx == nil && wasCutOff(err) && ctx.Err() == nil {
		err = s.recoverHandOut(ctx, actor, &answer, again)
	}
	if err != nil && answer.unread {
		err = errors.Join(err, s.giveBackUnread(ctx, answer.claim))
	}
	if err != nil {
		return &handOut{}, err
	}
	if s.tx == nil {
		s.queues.learn(look, answer.floors)
	}
	if !look.whole && len(answer.rows) == 0 {
		pause := s.queues.pause(actions)
		answer.next.pause = &pause
	}
	s.countTries(answer.rows)
	told := &news{}
	scheduled.tell(told)
	leases.tell(told)
	s.tell(ctx, told)
	return &answer, nil
}

// ownStep returns the step that hands out tasks of some queues: those that are first in line or, if
// it shall spread and nothing was handed out, some of each.
func (s *Store) ownStep(
	answer *handOut, actor ActorID, maxTasks int, lease time.Duration,
) func(look queueLook, spread bool) step {
	return func(look queueLook, spread bool) step {
		read := answer.read
		if spread {
			read = answer.readMore
		}
		return step{
			name: "own_tasks",
			args: []any{
				int64(answer.claim), string(actor), maxTasks, look.actions, interval(lease),
				s.sessionOf(actor), look.from, look.to, spread,
			},
			read: read,
		}
	}
}

// recoverHandOut gets the answer to an own_tasks whose connection broke: what it handed out under
// its claim or, if that is nothing and will be nothing, what is handed out now under another one.
func (s *Store) recoverHandOut(
	ctx context.Context, actor ActorID, answer *handOut, own func() []step,
) error {
	const attempts = 3
	var err error
	for range attempts {
		err = s.run(ctx,
			step{name: "bar_claim", args: []any{int64(answer.claim), string(actor)}},
			step{name: "claimed_tasks", args: []any{int64(answer.claim)}, read: answer.read})
		if err != nil || len(answer.rows) > 0 {
			return err
		}
		if answer.claim, err = newClaim(); err != nil {
			return err
		}
		if err = s.run(ctx, own()...); !wasCutOff(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func checkOwn(actor ActorID, maxTasks int, actions []string, lease time.Duration) error {
	if maxTasks <= 0 {
		return argumentError("maxTasks", "not positive")
	}
	if err := checkActor(actor, actions); err != nil {
		return err
	}
	return checkLease(lease)
}

func checkActor(actor ActorID, actions []string) error {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return err
	}
	if len(actions) == 0 {
		return argumentError("actions", "empty")
	}
	if len(actions) > actionsMax {
		return tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return at(err, i, "")
		}
		if action == Spontaneous {
			return at(argumentError("action", "spontaneous tasks complete by themselves"), i, "")
		}
	}
	return nil
}

// wasCutOff reports whether a call failed because its connection broke, so that it may have taken
// effect. An error that the server sent tells that it has not, unless it was the last thing that
// the server, or a pooler in between, sent.
func wasCutOff(err error) bool {
	if err == nil {
		return false
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.SeverityUnlocalized == "FATAL" || pgErr.SeverityUnlocalized == "PANIC" ||
			strings.HasPrefix(pgErr.Code, classConnectionException) ||
			pgErr.Code == codeCompletionUnknown
	}
	var connectErr *pgconn.ConnectError
	return !errors.As(err, &connectErr) && !errors.Is(err, ErrClosed)
}

// A handOut is the answer of own_tasks.
type handOut struct {
	claim claim
	rows  []ownedRow
	next  nextDue
	// unread says that there was an answer that could not be read.
	unread bool
	// floors are the least ranks of ready tasks, by action: one for each priority that was met.
	floors map[string][]int64
}

type ownedRow struct {
	key  int64
	rank int64 // places the span in the queue
	task OwnedTask
}

func (h *handOut) read(rows pgx.Rows) error {
	h.rows, h.floors = h.rows[:0], map[string][]int64{}
	for rows.Next() {
		var row ownedRow
		var deadline pgtype.Timestamptz
		var completed, aborted *int
		var signals, posts, alone bool
		var floor *int64
		err := rows.Scan(&row.key, &row.task.ID, &row.task.Action, &row.task.Body, &row.task.Try,
			&row.task.MaxTries, &deadline, &completed, &aborted, &signals, &posts, &alone,
			&row.rank, &floor)
		if err != nil {
			return h.cannotRead(err)
		}
		if completed != nil && aborted != nil {
			row.task.Completed, row.task.Aborted = *completed, *aborted
		}
		row.task.Token = newToken(h.claim, row.key, row.task.ID, hints{signals, posts, !alone})
		row.task.Deadline = finite(deadline)
		h.rows = append(h.rows, row)
		if action := row.task.Action; floor != nil && !slices.Contains(h.floors[action], *floor) {
			h.floors[action] = append(h.floors[action], *floor)
		}
	}
	return rows.Err()
}

// readMore reads the answer of an own_tasks behind another one, which may have found something.
func (h *handOut) readMore(rows pgx.Rows) error {
	if len(h.rows) > 0 {
		rows.Close()
		return rows.Err()
	}
	return h.read(rows)
}

// readNext reads what there is to wait for, behind own_tasks, which may have found something.
func (h *handOut) readNext(rows pgx.Rows) error {
	if err := h.next.read(rows); err != nil {
		return h.cannotRead(err)
	}
	return nil
}

func (h *handOut) cannotRead(err error) error {
	h.unread = true
	return err
}

// tasks returns the tasks in the order of their spans, which is that of priority and age, and in
// each span in the order of insertion.
func (h *handOut) tasks() []OwnedTask {
	slices.SortFunc(h.rows, func(a, b ownedRow) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.key, b.key))
	})
	tasks := make([]OwnedTask, len(h.rows))
	for i := range h.rows {
		tasks[i] = h.rows[i].task
	}
	return tasks
}

// SetStatus records what the owner of a task says of it for people to read, and how far it is, from
// 0 to 1. Text that cannot be stored is replaced, and cut at 64 KiB. It shows in [TaskInfo] until
// the next call or the return.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken]. The call
// may be repeated after any failure.
func (s *Store) SetStatus(
	ctx context.Context, owned OwnedTask, status string, progress float64,
) error {
	if err := s.setStatus(ctx, owned, status, progress); err != nil {
		return fmt.Errorf("set status: %w", err)
	}
	return nil
}

func (s *Store) setStatus(
	ctx context.Context, owned OwnedTask, status string, progress float64,
) error {
	if !(progress >= 0 && progress <= 1) { // NaN is neither
		return argumentError("progress", "not between 0 and 1")
	}
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return err
	}
	p := owned.performance()
	mine := map[performance]bool{}
	set := step{
		name: "set_status",
		args: []any{p.key, int64(p.claim), statusText(status), float32(progress)},
		read: readPerformances(mine),
	}
	return s.whileOwned(ctx, []OwnedTask{owned}, mine, append(s.apart(ctx, owned), set)...)
}

// whileOwned runs steps for the owner of tasks, which fill in what of it is mine. What is not gets
// the second look that a late owner is due (R8), and another one as long as it is owned but shares
// its row with what somebody else was cutting out; what still is not is refused.
func (s *Store) whileOwned(
	ctx context.Context, owned []OwnedTask, mine map[performance]bool, steps ...step,
) error {
	if err := s.run(ctx, steps...); err != nil {
		return err
	}
	if len(notMine(owned, mine)) == 0 {
		return nil
	}
	keys, claims := keysAndClaims(performancesOf(owned))
	still := map[performance]bool{}
	steps = slices.Concat(
		[]step{{name: "revive_tasks", args: []any{keys, claims, nil, nil}}}, steps,
		[]step{{name: "still_owned", args: []any{keys, claims}, read: readPerformances(still)}})
	for range withdrawAttempts {
		if err := s.runSplitting(ctx, steps...); err != nil {
			return err
		}
		lost := notMine(owned, mine)
		if len(lost) == 0 {
			return nil
		}
		if gone := notMine(owned, still); len(gone) > 0 {
			return taskError(gone, ErrInvalidToken)
		}
	}
	return taskError(notMine(owned, mine), errRestless)
}

// apart are the steps that cut owned tasks, sorted by key, out of rows that they share with others.
func (s *Store) apart(ctx context.Context, owned ...OwnedTask) []step {
	shares := func(t OwnedTask) bool { return t.Token.shares() }
	if !slices.ContainsFunc(owned, shares) {
		return nil
	}
	keys, _ := keysAndClaims(performancesOf(owned))
	s.setApart(ctx, singles(keys))
	return []step{carveLeased(singles(keys))}
}

func notMine(owned []OwnedTask, mine map[performance]bool) []TaskID {
	var lost []TaskID
	for i := range owned {
		if !mine[owned[i].performance()] {
			lost = append(lost, owned[i].ID)
		}
	}
	return lost
}

// HoldOwnership makes sure, inside [Store.WithTx], that the caller's commit counts only if it still
// owns the tasks: until the transaction ends, nobody else can be given them, even if their leases
// expire. A worker that writes results of its own and goes on working calls it first; one that
// returns the task in the same transaction has no need to.
//
// If one of the tokens is not the one of the task's last owner, the error is [ErrInvalidToken]
// (R8), in a [*TaskError] that names every such task, and the caller should roll back. Outside a
// transaction the error is [ErrInvalidArgument], since nothing would be held.
func (s *Store) HoldOwnership(ctx context.Context, owned []OwnedTask) error {
	if err := s.holdOwnership(ctx, owned); err != nil {
		return fmt.Errorf("hold ownership: %w", err)
	}
	return nil
}

func (s *Store) holdOwnership(ctx context.Context, owned []OwnedTask) error {
	if s.tx == nil {
		return argumentError("store", "not in a transaction; see WithTx")
	}
	if len(owned) == 0 {
		return s.quiet(ctx)
	}
	owned = slices.Clone(owned)
	slices.SortFunc(owned, func(a, b OwnedTask) int {
		return cmp.Compare(a.performance().key, b.performance().key)
	})
	for i := range owned {
		if err := checkText("task ID", string(owned[i].ID), idBytesMax); err != nil {
			return err
		}
	}
	keys, claims := keysAndClaims(performancesOf(owned))
	mine := map[performance]bool{}
	hold := step{
		name: "hold_ownership", args: []any{keys, claims}, read: readPerformances(mine),
	}
	return s.whileOwned(ctx, owned, mine, append(s.apart(ctx, owned...), hold)...)
}
