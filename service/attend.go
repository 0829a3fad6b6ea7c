package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/wire"
)

const (
	// attendEvery is how often a service says that it attends an actor: see stint.Remote.
	attendEvery = time.Minute

	// idBytesMax is the length of an ID.
	idBytesMax = 512

	// helloMax is how long the first message of a stream may take.
	helloMax = 10 * time.Second

	// partMax is how long it may take to tell the store that an actor is gone.
	partMax = 5 * time.Second
)

// An attendance is a stream of an actor that shows that the actor lives.
type attendance struct {
	*Service
	remote  stint.RemoteActor
	actions []string
	wire    *connect.BidiStream[stintv1.AttendRequest, stintv1.AttendResponse]

	mutex sync.Mutex
	held  map[stint.Token]stint.TaskID
	lost  []string
	left  bool          // the actor has said that it leaves
	told  chan struct{} // lost is not empty
}

// Attend keeps a stream until it breaks, the actor leaves, or the service drains.
func (o *workerService) Attend(
	ctx context.Context, wire *connect.BidiStream[stintv1.AttendRequest, stintv1.AttendResponse],
) error {
	if !o.begin() {
		return stint.ErrClosed
	}
	defer o.attending.Done()
	if err := callerOf(ctx).wait(); err != nil {
		return err
	}
	first, err := o.firstMessage(ctx, wire)
	switch {
	case errors.Is(err, io.EOF):
		return &stint.ArgumentError{
			Argument: "hello", Index: -1, Err: stint.ErrInvalidArgument,
			Problem: "must be in the first message, of which there is none",
		}
	case err != nil:
		return err
	}
	hello := first.GetHello()
	remote := callerOf(ctx).remote(hello.GetActor(), hello.GetSession())
	remote.Epoch = hello.GetEpoch()
	s := &attendance{
		Service: o.Service, wire: wire, actions: hello.GetActions(), remote: remote,
		held: map[stint.Token]stint.TaskID{}, told: make(chan struct{}, 1),
	}
	if err := s.note(first); err != nil {
		return err
	}
	latest, err := o.store.Remote().AttendActor(ctx, s.remote, s.actions)
	switch {
	case err != nil:
		return err
	case !latest:
		return errSuperseded()
	}
	defer s.end(context.WithoutCancel(ctx))
	defer o.store.WatchOwnership(s.owned, s.lose)()
	if err := wire.Send(&stintv1.AttendResponse{Welcome: true}); err != nil {
		return err
	}
	return s.serve(ctx)
}

// firstMessage waits for the first message of a stream, for a while at most.
func (o *workerService) firstMessage(
	ctx context.Context, wire *connect.BidiStream[stintv1.AttendRequest, stintv1.AttendResponse],
) (*stintv1.AttendRequest, error) {
	control := callerOf(ctx).control
	if err := control.SetReadDeadline(now().Add(helloMax)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(o.draining, func() { _ = control.SetReadDeadline(now()) })()
	first, err := wire.Receive()
	return first, errors.Join(err, control.SetReadDeadline(time.Time{}))
}

// stillMay returns an error if the caller may no longer attend the actor: the token may have been
// removed since the stream began, and so may the grant.
func (s *attendance) stillMay(ctx context.Context) error {
	by := callerOf(ctx)
	if by.again == nil {
		return nil
	}
	principal, err := by.again()
	if err != nil || principal == nil {
		return errUnknown(err)
	}
	asks := &asking{ctx: ctx, principal: principal, store: s.store}
	return asks.mayOwn(string(s.remote.Actor), s.actions)
}

func errSuperseded() error {
	return connect.NewError(connect.CodeAborted, errors.New("the actor has a later stream"))
}

// serve passes on what either side has to tell.
func (s *attendance) serve(ctx context.Context) error {
	received := make(chan error, 1)
	go func() { received <- s.receive() }()
	again := time.NewTicker(attendEvery - rand.N(attendEvery/4)) //nolint:gosec,mnd // spreads load
	defer again.Stop()
	for {
		select {
		case err := <-received:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-s.draining.Done():
			return s.wire.Send(&stintv1.AttendResponse{Stopping: true})
		case <-s.told:
			if err := s.wire.Send(&stintv1.AttendResponse{Lost: s.takeLost()}); err != nil {
				return err
			}
		case <-again.C:
			if err := s.stillMay(ctx); err != nil {
				return err
			}
			latest, err := s.store.Remote().AttendActor(ctx, s.remote, s.actions)
			if err == nil && !latest { // without an answer, the stream still shows that it lives
				return errSuperseded()
			}
		}
	}
}

// receive notes what the actor tells until the stream ends.
func (s *attendance) receive() error {
	for {
		message, err := s.wire.Receive()
		if err != nil {
			return err
		}
		if err := s.note(message); err != nil {
			return err
		}
	}
}

func (s *attendance) note(message *stintv1.AttendRequest) error {
	held, err := wire.ToPerformances(message.GetHeld())
	if err != nil {
		return err
	}
	done, err := wire.ToPerformances(message.GetDone())
	if err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, task := range held {
		if len(task.ID) > idBytesMax {
			return &stint.ArgumentError{
				Argument: "held", Index: -1, Err: stint.ErrTooLarge,
				Problem: fmt.Sprintf("an ID has %d bytes at most", idBytesMax),
			}
		}
		s.held[task.Token] = task.ID
	}
	for _, task := range done {
		delete(s.held, task.Token)
	}
	if len(s.held)+len(s.lost) > heldMax { // what it has lost it may not read
		return &stint.ArgumentError{
			Argument: "held", Index: -1, Err: stint.ErrTooLarge,
			Problem: fmt.Sprintf("an actor may hold %d tasks at a time", heldMax),
		}
	}
	s.left = s.left || message.GetLeave()
	return nil
}

// owned returns the tasks that the actor holds.
func (s *attendance) owned() []stint.OwnedTask {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	owned := make([]stint.OwnedTask, 0, len(s.held))
	for token, id := range s.held {
		owned = append(owned, stint.OwnedTask{ID: id, Token: token})
	}
	return owned
}

// lose notes that the actor has lost a task. It is told soon.
func (s *attendance) lose(task stint.OwnedTask, cause error) {
	if !errors.Is(cause, stint.ErrInvalidToken) {
		return // the store is closed, which is nothing to the actor
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, ok := s.held[task.Token]; !ok {
		return
	}
	delete(s.held, task.Token)
	s.lost = append(s.lost, task.Token.String())
	select {
	case s.told <- struct{}{}:
	default:
	}
}

func (s *attendance) takeLost() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	lost := s.lost
	s.lost = nil
	return lost
}

// end hands the actor's tasks on unless it comes back in time. An actor that has left keeps them
// until their leases expire, and so does one whose service ends.
func (s *attendance) end(ctx context.Context) {
	if s.hasLeft() {
		s.part(ctx, s.store.Remote().ForgetActor)
		return
	}
	s.attending.Go(func() {
		select {
		case <-time.After(s.grace):
			s.part(ctx, s.store.Remote().DismissActor)
		case <-s.draining.Done():
		}
	})
}

func (s *attendance) hasLeft() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.left
}

// part tells the store that the actor is gone.
func (s *attendance) part(
	ctx context.Context, tell func(ctx context.Context, remote stint.RemoteActor) error,
) {
	ctx, cancel := context.WithTimeout(ctx, partMax)
	defer cancel()
	if err := tell(ctx, s.remote); err != nil {
		s.failures.Failed(ctx, outage.Kind{
			What: "could not tell the store that an actor is gone: its tasks are handed on when " +
				"their leases expire", Level: slog.LevelWarn,
		}, slog.String("actor", string(s.remote.Actor)), slog.Any("error", err))
	}
}
