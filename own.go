package stint

import (
	"context"
	"fmt"
	"strings"
	"time"
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
// maxTasks must be positive; a value above 100,000 counts as 100,000. Values beyond the limits, and
// an empty list of actions, are refused with an [*ArgumentError].
//
// An answer has as many tasks as have 8 MiB of bodies together, besides bodies of up to 2 KiB, and
// always one: the rest is given back, with its tries refunded. While large bodies are on their way
// the leases are extended. The call may take as long as a slow line needs, but it fails if the
// database is silent for ten seconds, or the pool has a connection for nobody for as long; what it
// may have handed out is then given back in the background.
//
// If the connection breaks before the answer arrives, the call asks on another connection for the
// tasks that it may have been given. If ctx ends during the call, or the answer cannot be read, the
// call gives its tasks back, with their tries refunded; [Store.Close] waits for that. Only if that
// fails too may tasks be left without an owner until their lease expires.
func (s *Store) OwnTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	answer, err := s.ownTasks(ctx, ownRequest{
		actor: actor, maxTasks: maxTasks, actions: actions, lease: lease,
	})
	if err != nil {
		return nil, fmt.Errorf("own tasks: %w", err)
	}
	return answer.tasks, nil
}

// An ownAnswer is what one caller of OwnTasks or WaitToOwnTasks gets.
type ownAnswer struct {
	tasks []OwnedTask
	next  nextDue // for a caller that awaits, if there are no tasks
	// chosen is the claim, if the caller has chosen it, and actor the owner.
	chosen Claim
	actor  ActorID
}

// ownTasks owns tasks. If the request awaits and there are none, the answer says what to wait for.
func (s *Store) ownTasks(ctx context.Context, request ownRequest) (ownAnswer, error) {
	if err := request.check(); err != nil {
		return ownAnswer{}, err
	}
	if err := s.checkOpen(ctx); err != nil {
		return ownAnswer{}, err
	}
	s.maintainer.owning()
	request.maxTasks = min(request.maxTasks, ownedTasksMax)
	if s.tx != nil {
		answer, err := s.handOut(ctx, request)
		if err != nil {
			return ownAnswer{}, err
		}
		return ownAnswer{tasks: answer.tasks()}, nil
	}
	key := ownKey{
		actor: request.actor, actions: strings.Join(request.actions, "\x00"),
		lease: request.lease, awaits: request.awaits,
		chosen: request.chosen,
	}
	if request.chosen.isSet() {
		key.alone = s.claims.Add(1)
	}
	return s.owns.Do(ctx, key, request.maxTasks)
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
	ctx context.Context, key ownKey, wanted []int, _ bool,
) ([]ownAnswer, error) {
	all := 0
	for _, n := range wanted {
		all += n
	}
	actions := strings.Split(key.actions, "\x00")
	answer, err := s.handOut(ctx, ownRequest{
		actor: key.actor, maxTasks: all, actions: actions, lease: key.lease, awaits: key.awaits,
		chosen: key.chosen,
	})
	if err != nil {
		return nil, err
	}
	answers, tasks := make([]ownAnswer, len(wanted)), answer.tasks()
	for i, n := range wanted {
		n = min(n, len(tasks))
		answers[i] = ownAnswer{tasks[:n:n], answer.next, key.chosen, key.actor}
		if n == 0 && len(answer.rows) > 0 { // nobody asked whether there are more
			answers[i].next.contended = true
		}
		tasks = tasks[n:]
	}
	return answers, nil
}

// release gives back tasks, with their tries refunded, whose caller has left.
func (s *Store) release(abandoned ownAnswer) {
	if abandoned.chosen.isSet() {
		s.abandon(abandoned.chosen.claim(), abandoned.actor)
		return
	}
	ctx, cancel := undoing(context.Background())
	defer cancel()
	within := &Store{core: s.core, afterClose: true}
	err := within.giveBack(ctx, abandoned.tasks)
	s.failed(context.Background(), s.logs.abandoned, err)
}

// abandon gives back what may have been handed out under a claim whose caller has left, unless a
// caller has repeated the call.
//
// The hand-out may still be under way: a server that sends an answer notices only then that nobody
// takes it. So abandon tries for a while, unless the store is closed.
func (s *Store) abandon(c claim, actor ActorID) {
	const attempts, pause = 12, time.Second // a minute, if each attempt has to wait
	within := &Store{core: s.core, afterClose: true}
	attempt := func() error {
		ctx, cancel := undoing(context.Background())
		defer cancel()
		return within.spend(ctx, c, actor, false)
	}
	err := attempt()
	for try := 1; err != nil && try < attempts && !s.closed.Load(); try++ {
		select {
		case <-time.After(pause):
			err = attempt()
		case <-s.closing:
		}
	}
	s.failed(context.Background(), s.logs.abandoned, err)
}

func (r *ownRequest) check() error {
	if r.maxTasks <= 0 {
		return argumentError("maxTasks", "must be positive")
	}
	if err := checkActor(r.actor, r.actions); err != nil {
		return err
	}
	return checkLease(r.lease)
}
