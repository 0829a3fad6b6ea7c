package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/internal/wire"
)

// comeBackFirst is the longest pause before a stream that broke is opened again: the service hands
// tasks on when three quarters of a second have passed.
const comeBackFirst = 50 * time.Millisecond

// leaveMax is how long an actor that leaves waits until the service knows.
const leaveMax = time.Second

// presence is what a client shows of itself: the actors that are registered, with the tasks that
// they hold, and who wants to know of losses.
type presence struct {
	mutex    sync.Mutex
	epoch    int64
	actors   map[stint.ActorID]*attended
	watchers map[*watcher]bool
}

// An attended actor has a stream, which is opened again whenever it breaks.
type attended struct {
	actor   stint.ActorID
	actions []string
	held    map[stint.Token]stint.OwnedTask // ID and token only
	changed chan struct{}                   // held or leaving has changed
	added   []stint.OwnedTask               // since the stream was told
	dropped []stint.OwnedTask
	leaving bool

	welcome     chan struct{} // closed when a stream stands for the first time
	welcomeOnce sync.Once
	refused     chan error    // before the first stream stood
	replaced    chan struct{} // closed when another registration takes its place
	ended       chan struct{}
	stop        context.CancelFunc
}

// A watcher wants to know which tasks of its own are lost.
type watcher struct {
	owned func() []stint.OwnedTask
	lost  func(stint.OwnedTask, error)
}

func (p *presence) init() {
	p.actors = map[stint.ActorID]*attended{}
	p.watchers = map[*watcher]bool{}
}

// RegisterActor is [stint.Store.RegisterActor]: it shows by a stream to the service that the actor
// lives. If the stream breaks, the client opens another one, at whatever service; if none stands
// for about a second, the actor's tasks are handed on. The call returns when a stream stands, or
// when ctx ends; the client goes on trying until the actor is unregistered, unless the first stream
// fails as any other would, which is the error then, such as [ErrRefused] or
// [stint.ErrInvalidArgument]. Over HTTP/1.1 there are no such streams: most calls do not return
// before ctx ends then, and tasks are handed on when their leases expire.
func (c *Client) RegisterActor(
	ctx context.Context, actor stint.ActorID, actions []string,
) error {
	if err := c.checkOpen(); err != nil {
		return fmt.Errorf("register actor: %w", err)
	}
	a := c.attend(actor, actions)
	if a == nil {
		return fmt.Errorf("register actor: %w", stint.ErrClosed)
	}
	select {
	case <-a.welcome:
		return nil
	case err := <-a.refused:
		return fmt.Errorf("register actor: %w", err)
	case <-a.replaced:
		return errors.New("register actor: it was registered once more, or unregistered")
	case <-ctx.Done():
		return fmt.Errorf("register actor: %w", ctx.Err())
	case <-c.closing:
		return fmt.Errorf("register actor: %w", stint.ErrClosed)
	}
}

// attend starts the stream of an actor; one that it had before ends.
func (c *Client) attend(actor stint.ActorID, actions []string) *attended {
	p := &c.presence
	p.mutex.Lock()
	defer p.mutex.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	a := &attended{
		actor: actor, actions: actions, held: map[stint.Token]stint.OwnedTask{},
		changed: make(chan struct{}, 1), welcome: make(chan struct{}),
		refused: make(chan error, 1), replaced: make(chan struct{}),
		ended: make(chan struct{}), stop: stop,
	}
	began := c.inBackground(func() {
		defer close(a.ended)
		defer stop()
		go func() {
			select {
			case <-c.closing:
				c.leave(a)
			case <-ctx.Done():
			}
		}()
		c.keepStream(ctx, a)
	})
	if !began {
		stop()
		return nil
	}
	if before := p.actors[actor]; before != nil {
		close(before.replaced)
		before.stop()
		a.held = before.held
	}
	p.actors[actor] = a
	return a
}

// UnregisterActor is [stint.Store.UnregisterActor].
func (c *Client) UnregisterActor(ctx context.Context, actor stint.ActorID) error {
	p := &c.presence
	p.mutex.Lock()
	a := p.actors[actor]
	delete(p.actors, actor)
	if a != nil {
		close(a.replaced)
	}
	p.mutex.Unlock()
	if a == nil {
		return nil
	}
	c.leave(a)
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("unregister actor: %w", ctx.Err())
	}
}

// leave makes a stream tell the service that the actor leaves, and end.
func (c *Client) leave(a *attended) {
	c.presence.mutex.Lock()
	a.leaving = true
	c.presence.mutex.Unlock()
	wakeUp(a.changed)
	time.AfterFunc(leaveMax, a.stop)
}

// keepStream opens streams until the actor leaves.
func (c *Client) keepStream(ctx context.Context, a *attended) {
	pause, everStood := comeBackFirst, false
	for ctx.Err() == nil {
		stood, err := c.stream(ctx, a, func() { c.outages.unseen.Worked(ctx) })
		if c.isLeaving(a) || ctx.Err() != nil {
			return
		}
		everStood = everStood || stood
		if again, _ := isLost(err); err != nil && !again && !everStood {
			a.refused <- translated(ctx, err)
			c.outages.unseen.Failed(ctx, err) // whoever registered it may wait no longer
			c.presence.forget(a)
			return
		}
		if stood {
			pause = comeBackFirst
		}
		if err != nil {
			c.outages.unseen.Failed(ctx, err)
		}
		select {
		case <-time.After(rand.N(pause)): //nolint:gosec // spreads load
		case <-ctx.Done():
		}
		pause = min(2*pause, pauseMax)
	}
}

func (c *Client) isLeaving(a *attended) bool {
	c.presence.mutex.Lock()
	defer c.presence.mutex.Unlock()
	return a.leaving
}

// stream opens a stream, and keeps it until it breaks or the actor leaves. It reports whether the
// service has welcomed it.
func (c *Client) stream(
	ctx context.Context, a *attended, worked func(),
) (stood bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.owners.Attend(ctx)
	if err != nil {
		cancel()
		return false, err
	}
	defer func() {
		cancel() // first: there is no response to close if nothing could be sent
		_ = stream.CloseResponse()
	}()
	if err := stream.Send(c.hello(a)); err != nil {
		return false, err
	}
	received := make(chan error, 1)
	welcomed := make(chan struct{})
	go func() { received <- c.receive(a, stream, sync.OnceFunc(func() { close(welcomed) })) }()
	for {
		select {
		case <-welcomed:
			welcomed, stood = nil, true
			a.welcomeOnce.Do(func() { close(a.welcome) })
			worked()
		case err := <-received:
			return stood, err
		case <-a.changed:
			message := c.changes(a)
			if err := stream.Send(message); err != nil {
				return stood, err
			}
			if message.GetLeave() {
				return stood, errors.Join(stream.CloseRequest(), <-received) // it has noted it
			}
		}
	}
}

// hello is the first message of a stream, with all tasks that the actor holds.
func (c *Client) hello(a *attended) *stintv1.AttendRequest {
	p := &c.presence
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.epoch++
	a.added, a.dropped = nil, nil
	message := &stintv1.AttendRequest{Leave: a.leaving, Hello: &stintv1.AttendHello{
		Actor: string(a.actor), Session: c.session, Epoch: p.epoch, Actions: a.actions,
	}}
	for _, task := range a.held {
		message.Held = append(message.Held, wire.FromPerformance(&task))
	}
	return message
}

// changes is what the service has not been told yet.
func (c *Client) changes(a *attended) *stintv1.AttendRequest {
	c.presence.mutex.Lock()
	defer c.presence.mutex.Unlock()
	message := &stintv1.AttendRequest{
		Leave: a.leaving, Held: wire.FromPerformances(a.added),
		Done: wire.FromPerformances(a.dropped),
	}
	a.added, a.dropped = nil, nil
	return message
}

type attendStream = connect.BidiStreamForClientSimple[stintv1.AttendRequest, stintv1.AttendResponse]

// receive passes on what the service tells until the stream ends.
func (c *Client) receive(a *attended, stream *attendStream, welcomed func()) error {
	for {
		message, err := stream.Receive()
		if err != nil {
			return ignoreEnd(err)
		}
		if message.GetWelcome() {
			welcomed()
		}
		for _, text := range message.GetLost() {
			if token, err := stint.ParseToken(text); err == nil {
				c.presence.lose(a, token)
			}
		}
		if message.GetStopping() {
			return nil // another service takes the next stream
		}
	}
}

// ignoreEnd returns nil for the end of a stream that is no error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// forget notes that an actor has no stream, and will have none.
func (p *presence) forget(a *attended) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.actors[a.actor] == a {
		delete(p.actors, a.actor)
	}
}

// hold notes tasks that an actor was given, if it is registered.
func (p *presence) hold(actor stint.ActorID, owned []stint.OwnedTask) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	a := p.actors[actor]
	if a == nil {
		return
	}
	for _, task := range owned {
		held := stint.OwnedTask{ID: task.ID, Token: task.Token}
		a.held[task.Token] = held
		a.added = append(a.added, held)
	}
	wakeUp(a.changed)
}

// drop notes tasks that were returned, or lost.
func (p *presence) drop(returns []stint.Return, verdicts []error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, a := range p.actors {
		for i := range returns {
			held, ok := a.held[returns[i].Token]
			if ok && (verdicts[i] == nil || errors.Is(verdicts[i], stint.ErrInvalidToken)) {
				delete(a.held, held.Token)
				a.dropped = append(a.dropped, held)
				wakeUp(a.changed)
			}
		}
	}
}

// lose tells the watchers of a task that its actor has lost. The service may take a task for lost
// that the actor has just returned.
func (p *presence) lose(a *attended, token stint.Token) {
	p.mutex.Lock()
	if _, held := a.held[token]; !held {
		p.mutex.Unlock()
		return
	}
	delete(a.held, token)
	watchers := slices.Collect(maps.Keys(p.watchers))
	p.mutex.Unlock()
	for _, w := range watchers {
		for _, task := range w.owned() {
			if task.Token == token {
				w.lost(task, stint.ErrInvalidToken)
			}
		}
	}
}

// WatchOwnership is [stint.Store.WatchOwnership] for tasks of registered actors. The other losses
// are found by [Client.ExtendTasksOwnership]. When the client is closed, nothing is told.
func (c *Client) WatchOwnership(
	owned func() []stint.OwnedTask, lost func(stint.OwnedTask, error),
) (stop func()) {
	p, w := &c.presence, &watcher{
		owned: func() (tasks []stint.OwnedTask) {
			c.callBack(func() { tasks = owned() })
			return tasks
		},
		lost: func(task stint.OwnedTask, cause error) {
			c.callBack(func() { lost(task, cause) })
		},
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.watchers[w] = true
	return func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		delete(p.watchers, w)
	}
}

// callBack calls a function of the caller's in our goroutine, which must not end with it.
func (c *Client) callBack(f func()) {
	if failure := safely.Call(f); failure != nil {
		c.outages.callback.Failed(context.Background(), failure)
	}
}

// wakeUp makes whoever receives from the channel look, now or next.
func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
