package stint

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/schedule"
)

// Remote has the verbs by which a service gives tasks to processes that do not reach the database:
// where answers get lost on the way, where actors come and go with their connections, and where
// what a call reads must have a bound. The package service is made of them. A worker with a store
// needs none.
type Remote struct{ store *Store }

// Remote returns the verbs for processes that do not reach the database.
func (s *Store) Remote() *Remote { return &Remote{s} }

// Transact calls work in a transaction, which is undone if that fails, and again after a deadlock.
func (r *Remote) Transact(ctx context.Context, work func(store *Store) error) error {
	return r.store.transact(ctx, work)
}

// Graph is [Store.Graph] with another bound for the tasks, for pictures in which groups are boxes.
func (r *Remote) Graph(ctx context.Context, id TaskID, tasksMax int) (*Graph, error) {
	graph, err := r.store.graph(ctx, id, tasksMax)
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	return graph, nil
}

// A RemoteActor is an actor in a process that does not reach the database. It asks through
// services, processes with a store, which come and go: its tasks do not depend on any of them. It
// owns tasks by [Remote.ClaimTasks] with its session, and its leases are bound to that. The service
// to which it is connected attends it ([Remote.AttendActor]). When it is gone, the service hands
// its tasks on ([Remote.DismissActor]).
type RemoteActor struct {
	Actor ActorID

	// Session is a random number that the process has made for itself, other than 0.
	Session int64

	// Epoch counts the connections of the process: each has a larger one than the one before, so
	// that a service that notices late that an earlier connection is gone changes nothing.
	Epoch int64
}

// ClaimTasks is [Store.OwnTasks] under a claim of the caller's. A caller that has got no answer
// sets Repeated and calls again, at any store on the schema, until it gets one: with the tasks that
// were fetched under the claim, have the actions, and are still the actor's, under a new lease. If
// there are none, and never will be under this claim, the error is [ErrClaimSpent]. After an answer
// with tasks, or this error, the caller uses a new claim; one that has fetched nothing may be used
// again.
//
// A caller whose earlier answer was lost, and that is not going to call again, calls
// [Remote.ReleaseClaim]. If ctx ends during the call, what it has fetched is given back, unless the
// call was repeated meanwhile: the claim is then spent.
//
// An answer is on its way to somebody else for as long as the line takes, and nobody extends the
// leases meanwhile. So it has no more bodies than a line of 256 KiB a second carries in a third of
// the lease, and no more than one of OwnTasks, but always one: choose a lease for the largest.
//
// Calls share no statement with others, unlike those of OwnTasks. In a transaction the call is
// refused with an [*ArgumentError].
func (r *Remote) ClaimTasks(
	ctx context.Context, c Claim, actor ActorID, maxTasks int, actions []string,
	lease time.Duration,
) ([]OwnedTask, error) {
	request, err := r.claiming(c, Want{actor, maxTasks, actions, lease}, nil)
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	answer, err := r.store.ownTasks(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	return answer.tasks, nil
}

// ReturnAndClaimTasks is [Remote.ClaimTasks] and [Store.ReturnAndOwnTasks] in one. A return that an
// earlier call under the claim has made has [ErrAlreadyReturned].
func (r *Remote) ReturnAndClaimTasks(
	ctx context.Context, returns []Return, c Claim, want Want,
) (verdicts []error, owned []OwnedTask, err error) {
	request, err := r.claiming(c, want, returns)
	if err != nil {
		return nil, nil, fmt.Errorf("return and claim tasks: %w", err)
	}
	answer, err := r.store.returnAndOwn(ctx, request)
	if err != nil {
		return nil, nil, fmt.Errorf("return and claim tasks: %w", err)
	}
	return answer.verdicts, answer.tasks, nil
}

// OwnUp makes verdicts on returns those of one call, if an attempt of the same call may have made
// the returns, and its answer was lost: what was made before has no error then. If the store does
// not keep tasks that have ended so ([KeepNone]), neither has a return of a task that is gone. A
// return that comes twice in a call was made once.
func (r *Remote) OwnUp(returns []Return, verdicts []error) {
	r.store.ownUp(returns, verdicts, slices.Repeat([]bool{true}, len(returns)))
}

// Drops reports whether the store drops tasks when they end ([KeepNone]), of one outcome at least.
func (r *Remote) Drops() bool {
	completed, aborted := r.store.keep.Drops()
	return completed || aborted
}

// WaitToClaimTasks is [Remote.ClaimTasks], but waits until there are tasks, as
// [Store.WaitToOwnTasks] does.
func (r *Remote) WaitToClaimTasks(
	ctx context.Context, c Claim, actor ActorID, maxTasks int, actions []string,
	lease time.Duration,
) ([]OwnedTask, error) {
	request, err := r.claiming(c, Want{actor, maxTasks, actions, lease}, nil)
	if err != nil {
		return nil, fmt.Errorf("wait to claim tasks: %w", err)
	}
	owned, err := r.store.waitToOwnTasks(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("wait to claim tasks: %w", err)
	}
	return owned, nil
}

// ReleaseClaim gives back, with their tries refunded, the tasks that were fetched under a claim
// and are still owned under it, and sees to it that none are fetched for the next ten minutes: a
// call of [Remote.ClaimTasks] that is still on its way fails. The call may be repeated after any
// failure.
func (r *Remote) ReleaseClaim(ctx context.Context, c Claim, actor ActorID) error {
	if err := r.releaseClaim(ctx, c, actor); err != nil {
		return fmt.Errorf("release claim: %w", err)
	}
	return nil
}

// ExtendTasksOwnership is [Store.ExtendTasksOwnership] for a remote actor. If a lease has expired
// and is extended all the same, it is bound to the actor's session again.
func (r *Remote) ExtendTasksOwnership(
	ctx context.Context, remote RemoteActor, owned []OwnedTask, lease time.Duration,
) ([]bool, error) {
	extended, err := r.store.extend(ctx, remote.Actor, remote.Session, owned, lease)
	if err != nil {
		return nil, fmt.Errorf("extend remote ownership: %w", err)
	}
	return extended, nil
}

// AttendActor notes that this store attends a connection of a remote actor, so that
// [Store.ListActors] shows it for as long as the process of the store lives. It reports whether the
// connection is the actor's latest; if not, the service should end it. The call may be repeated,
// and should be now and then, since others forget the actor when they believe for a while that this
// process is gone.
//
// With PollOnly, or behind a pooler, the actor is not shown.
func (r *Remote) AttendActor(
	ctx context.Context, remote RemoteActor, actions []string,
) (latest bool, err error) {
	if latest, err = r.attendActor(ctx, remote, actions); err != nil {
		return false, fmt.Errorf("attend actor: %w", err)
	}
	return latest, nil
}

// DismissActor hands on the tasks of a remote actor whose connection is gone, as if their leases
// had expired, unless a later connection of it is attended, at whatever store. Tasks that somebody
// locks at this moment are handed on when the lock is free, if that is soon, or else when their
// leases expire. The call may be repeated after any failure.
func (r *Remote) DismissActor(ctx context.Context, remote RemoteActor) error {
	if err := r.dismissActor(ctx, remote); err != nil {
		return fmt.Errorf("dismiss actor: %w", err)
	}
	return nil
}

// ForgetActor notes that a remote actor has left, unless a later connection of it is attended. As
// with [Store.UnregisterActor], the tasks that it still owns are handed on when their leases
// expire.
func (r *Remote) ForgetActor(ctx context.Context, remote RemoteActor) error {
	err := r.checkRemote(remote)
	if err == nil {
		err = r.store.db.Run(ctx, pg.Step{
			Name: "forget_actor",
			Args: []any{remote.Session, string(remote.Actor), remote.Epoch},
		})
	}
	if err != nil {
		return fmt.Errorf("forget actor: %w", err)
	}
	return nil
}

// InputsPage is [Store.Inputs] a page at a time, for results that are large together. A page has
// inputs of at most bytesMax bytes, but at least one if there is one. The first page comes after
// the empty cursor. Each page comes with the cursor for the next one, which is empty if there are
// no more inputs.
func (r *Remote) InputsPage(
	ctx context.Context, owned OwnedTask, after Cursor, bytesMax int,
) (inputs []Input, next Cursor, err error) {
	from := int64(0)
	if after != "" {
		if from, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			err = argumentError("after", "must be the cursor that came with a page")
			return nil, "", fmt.Errorf("inputs page: %w", err)
		}
	}
	inputs, from, err = r.store.inputs(ctx, owned, from, int64(bytesMax))
	if err != nil {
		return nil, "", fmt.Errorf("inputs page: %w", err)
	}
	if from != 0 {
		next = Cursor(strconv.FormatInt(from, 10))
	}
	return inputs, next, nil
}

// CountBytes returns how many bytes the bodies, results and texts of tasks have together, which
// [Store.GetTasks] would return, without reading them. A task that is named twice counts twice; IDs
// that no task has do not count.
func (r *Remote) CountBytes(ctx context.Context, ids []TaskID) (int64, error) {
	if err := checkIDs(ids); err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	var size int64
	err := r.store.db.Run(ctx, pg.Step{
		Name: "task_bytes", Args: []any{texts(ids)},
		Read: func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&size}, func() error { return nil })
			return err
		},
	})
	if err != nil {
		return 0, fmt.Errorf("count bytes: %w", err)
	}
	return size, nil
}

// CountScheduleBytes returns how many bytes the schedules with these names have, or all of them if
// none is named, which [Store.ListSchedules] would return, without reading their tasks. Bodies
// count with a third more than they have.
func (r *Remote) CountScheduleBytes(ctx context.Context, names ...string) (int64, error) {
	if err := checkScheduleNames(names); err != nil {
		return 0, fmt.Errorf("count bytes of schedules: %w", err)
	}
	size, err := schedule.CountBytes(ctx, r.store.db, names)
	if err != nil {
		return 0, fmt.Errorf("count bytes of schedules: %w", err)
	}
	return size, nil
}

// GetSmallTasks is [Store.GetTasks], but reads no body, result or text of more than most bytes.
// What is left out has left bytes together; a task that is named twice counts twice.
func (r *Remote) GetSmallTasks(
	ctx context.Context, ids []TaskID, most int,
) (tasks []TaskInfo, left int64, err error) {
	if tasks, left, err = r.store.getTasks(ctx, ids, most); err != nil {
		return tasks, left, fmt.Errorf("get tasks: %w", err)
	}
	return tasks, left, nil
}

// WaitForSmallTasks is [Store.WaitForTasks], but reads no body or result of more than most bytes,
// as [Remote.GetSmallTasks] does: so a wait keeps none.
func (r *Remote) WaitForSmallTasks(
	ctx context.Context, ids []TaskID, most int,
) (tasks []TaskInfo, left int64, err error) {
	if tasks, left, err = r.store.waitForTasks(ctx, ids, most); err != nil {
		return nil, 0, fmt.Errorf("wait for tasks: %w", err)
	}
	return tasks, left, nil
}

// FindActions returns the actions of tasks by their IDs, without the rest of them. IDs that no task
// has are left out.
func (r *Remote) FindActions(ctx context.Context, ids []TaskID) (map[TaskID]string, error) {
	if err := checkIDs(ids); err != nil {
		return nil, fmt.Errorf("find actions: %w", err)
	}
	actions := make(map[TaskID]string, len(ids))
	err := r.store.db.Run(ctx, pg.Step{
		Name: "existing_tasks", Args: []any{texts(ids)},
		Read: func(rows pgx.Rows) error {
			var id TaskID
			var action string
			_, err := pgx.ForEachRow(rows, []any{&id, &action}, func() error {
				actions[id] = action
				return nil
			})
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("find actions: %w", err)
	}
	return actions, nil
}

func (r *Remote) claiming(c Claim, want Want, returns []Return) (ownRequest, error) {
	if err := r.store.outsideTx(", whose end decides what was fetched"); err != nil {
		return ownRequest{}, err
	}
	if c.Number == 0 {
		return ownRequest{}, argumentError("Claim.Number", "must not be 0; NewClaim makes one")
	}
	return ownRequest{Want: want, chosen: c, returns: returns}, nil
}

func (r *Remote) releaseClaim(ctx context.Context, c Claim, actor ActorID) error {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return err
	}
	return r.store.spend(ctx, c.claim(), actor, true)
}

func (r *Remote) attendActor(
	ctx context.Context, remote RemoteActor, actions []string,
) (latest bool, err error) {
	if err := checkActor(remote.Actor, actions); err != nil {
		return false, err
	}
	if err := r.checkRemote(remote); err != nil {
		return false, err
	}
	attendant, err := r.attendant(ctx)
	if err != nil {
		return false, err
	}
	superseded := false
	err = r.store.db.WithReserve(pg.Prompt, 0).Run(ctx, pg.Step{
		Name: "attend_actor",
		Args: []any{remote.Session, string(remote.Actor), attendant, remote.Epoch, actions},
		Read: func(rows pgx.Rows) (err error) {
			superseded, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
			return err
		},
	})
	return !superseded, err
}

// attendant is the number of the store's session, or 0 if it can have none. The actor is noted all
// the same: only that tells which of its connections is the latest.
func (r *Remote) attendant(ctx context.Context) (int64, error) {
	if err := r.store.db.CheckUsable(ctx); err != nil {
		return 0, err
	}
	return r.store.session.Number(ctx)
}

func (r *Remote) dismissActor(ctx context.Context, remote RemoteActor) error {
	const pauseFirst, pauseMax = 5 * time.Millisecond, time.Second
	if err := r.checkRemote(remote); err != nil {
		return err
	}
	for pause := pauseFirst; ; pause *= 2 {
		pending, passed, leases := &pg.Notices{}, 0, r.store.scanLeases(takenOverLeasesMax)
		dismiss := pg.Step{
			Name: "dismiss_actor",
			Args: []any{remote.Session, string(remote.Actor), remote.Epoch},
			Read: func(rows pgx.Rows) (err error) {
				passed, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
				return err
			},
		}
		if err := r.store.db.Run(ctx, dismiss, leases.step()); err != nil {
			return err
		}
		r.store.addNotices(leases, pending)
		r.store.db.Notify(ctx, pending)
		if passed == 0 || pause > pauseMax {
			return r.store.settleDue(ctx) // this ends the tasks that have no tries left
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Remote) checkRemote(remote RemoteActor) error {
	if err := r.store.outsideTx("; who attends whom is at once"); err != nil {
		return err
	}
	if remote.Session == 0 {
		return argumentError("RemoteActor.Session", "must not be 0")
	}
	return checkText("actor", string(remote.Actor), actorBytesMax)
}
