package stinttest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// A Process takes the place of a process with a worker in [TryEveryCrash], which makes it. It is
// safe for concurrent use.
type Process struct {
	// Pool has the connections of the process, to the database of the test, with the settings of
	// [Store.Pool]. The handler must release them, and may not close the pool.
	Pool *pgxpool.Pool

	// Store is the store of the process, on its pool, with the options of the test's store, but
	// without background work ([stint.Options.PollOnly], [stint.MaintainNever]) and a log.
	Store *stint.Store

	// at is the instant of its death: before the thing at/2 that is said if it is even, else after.
	at   int
	kill context.CancelFunc
	gone chan struct{} // is closed when it has died

	// relays are those of its programs, and unusable says why one of these cannot be run.
	relays   []*relay
	unusable error

	mutex sync.Mutex // guards the fields below
	// performing says that a handler runs, or its task is being returned.
	performing bool
	said       []string
	dead       bool
	death      string // says when it died, unless it has just ended
	pids       []int64
}

// never is no instant: the process does not die.
const never = -1

// A fate is what becomes of something that a process says.
type fate int

const (
	spoken fate = iota
	unheard
	unanswered
)

var errDied = errors.New("the process has died")

// Call makes a call to the world outside of the database, such as a payment or a mail, by a name
// for messages. It returns the error of call. If the process is to die at this point it is dead
// afterwards, whether call was called or not; from then on Call calls nothing and returns an error.
// A handler gets it in the place of what it calls elsewhere:
//
//	type payments struct {
//		*stinttest.Process
//		bank *fakeBank
//	}
//
//	func (p payments) Charge(ctx context.Context, key string) error {
//		return p.Call("charge", func() error { return p.bank.Charge(ctx, key) })
//	}
func (p *Process) Call(name string, call func() error) error {
	fate := p.say("the call " + strconv.Quote(name))
	if fate == unheard {
		return errDied
	}
	err := call()
	if fate == unanswered {
		p.die()
	}
	if p.isDead() {
		return errDied
	}
	return err
}

// start connects a process.
func (p *Process) start(ctx context.Context, store *Store) (err error) {
	config := store.Pool.Config()
	config.MinConns, config.MinIdleConns = 0, 0
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	inner := config.ConnConfig.AfterNetConnect
	config.ConnConfig.AfterNetConnect = func(
		ctx context.Context, config *pgconn.Config, conn net.Conn,
	) (_ net.Conn, err error) {
		if inner != nil {
			if conn, err = inner(ctx, config, conn); err != nil {
				return conn, err
			}
		}
		return &wire{Conn: conn, process: p, prepared: map[string]string{}}, nil
	}
	if p.Pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	options := store.options
	options.PollOnly, options.Maintenance = true, stint.MaintainNever
	options.Logger = slog.New(slog.DiscardHandler)
	if p.Store, err = stint.New(p.Pool, options); err != nil {
		p.Pool.Close()
	}
	return err
}

// stop lets go of what a dead process had. It does not wait for connections that the handler has
// not released: nobody makes a process that dies do so.
func (p *Process) stop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	err := p.Store.Close(ctx)
	go p.Pool.Close()
	for _, relay := range p.relays {
		relay.close()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// watched is a handler during which the process counts what it says.
func (p *Process) watched(next worker.Handler) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		p.mutex.Lock()
		p.performing = true
		p.mutex.Unlock()
		return next(ctx, task)
	}
}

// rest notes that a performance is over, and reports whether the process has died.
func (p *Process) rest() (dead bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.performing = false
	return p.dead
}

// say counts something that is about to be said, and tells what becomes of it. If nobody hears it,
// the process has died.
func (p *Process) say(what string) fate {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case p.dead:
		return unheard
	case !p.performing:
		return spoken
	}
	p.said = append(p.said, what)
	switch p.at {
	case 2 * (len(p.said) - 1):
		p.death = "before " + what
		p.end()
		return unheard
	case 2*(len(p.said)-1) + 1:
		p.death = "after " + what
		return unanswered
	}
	return spoken
}

// die ends a process: nothing that it does has an effect any more.
func (p *Process) die() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.end()
}

// end is die while the mutex is held.
func (p *Process) end() {
	if !p.dead {
		p.dead = true
		close(p.gone)
	}
	p.kill()
}

func (p *Process) isDead() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.dead
}

// connected notes the process ID of a session.
func (p *Process) connected(pid int64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.pids = append(p.pids, pid)
}

func (p *Process) sessions() []int64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.pids)
}
