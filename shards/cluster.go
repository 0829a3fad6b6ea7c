package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/verbs"
	"github.com/stint-tasks/stint/worker"
)

// A Store has the verbs that a cluster calls on a shard. [*stint.Store] has them, and a client of a
// service that has a store.
type Store interface {
	worker.Queue
	verbs.Inserter
	verbs.Reader
	verbs.Waiter
	verbs.Follower
	verbs.Changer
	verbs.Answerer
	verbs.Auditor
	ReplaceTasks(ctx context.Context, tasks []stint.Task) error
	Close(ctx context.Context) error
}

// Options adjust a Cluster. The zero value is a good default.
type Options struct {
	// Connect opens the store of a shard, when it is first needed. Default: [Connect].
	Connect func(ctx context.Context, shard, url string) (Store, error)

	// DecideWithin is how long an insert over several shards may take. If the process that makes
	// it dies before it has decided, relays undo it when this time has passed. Default: a minute.
	DecideWithin time.Duration

	// Logger gets the failures of relays: each kind at once, then once a minute as long as it
	// lasts. Default: [slog.Default], for warnings and errors.
	Logger *slog.Logger
}

const decideWithinDefault = time.Minute

// A Cluster has the stores of all shards of a topology. It is safe for concurrent use.
type Cluster struct {
	topology Topology
	options  Options
	logger   *slog.Logger

	mutex  sync.Mutex
	shards map[string]*connection
	closed bool

	forgotten sync.WaitGroup // stores of shards that are being closed

	endsAway sync.Map // names of the shards that were away when [Cluster.Ends] last asked them
}

// A connection is the store of a shard, or an attempt to open it.
type connection struct {
	ready chan struct{} // closed when the attempt has ended
	store Store
	err   error

	known   atomic.Bool // the database is not that of another shard
	claimed atomic.Bool // and says so

	reached atomic.Bool // the shard has once been there
	users   int         // calls that wait for it to be opened and known, and who opens it
}

// New returns a cluster. It connects to a shard when the shard is first needed.
func New(topology Topology, options Options) (*Cluster, error) {
	if topology.pattern == "" && len(topology.urls) == 0 {
		return nil, badTopology("there is no shard in it")
	}
	if options.DecideWithin < 0 {
		return nil, &stint.ArgumentError{
			Argument: "Options.DecideWithin", Index: -1, Err: stint.ErrInvalidArgument,
			Problem: "must not be negative",
		}
	}
	if options.DecideWithin == 0 {
		options.DecideWithin = decideWithinDefault
	}
	if options.Connect == nil {
		options.Connect = Connect
	}
	return &Cluster{
		topology: topology, options: options, logger: safely.LoggerOr(options.Logger),
		shards: map[string]*connection{},
	}, nil
}

// Topology returns the topology of the cluster.
func (c *Cluster) Topology() Topology { return c.topology }

// Store returns the store of a shard, for everything that concerns this shard alone. The cluster
// closes it. If there is no such shard, the error is [ErrUnknownShard]; if its database says that
// it is another shard, it is [ErrWrongShard], in a [*ShardError]; if the shard cannot be reached,
// the next call tries again.
func (c *Cluster) Store(ctx context.Context, shard string) (Store, error) {
	url, err := c.topology.URL(shard)
	if err != nil {
		return nil, err
	}
	opening, first, err := c.connection(shard)
	if err != nil {
		return nil, err
	}
	defer c.leave(shard, opening)
	if first {
		go c.open(context.WithoutCancel(ctx), shard, url, opening)
	}
	select {
	case <-opening.ready:
		if opening.err != nil {
			return nil, opening.err
		}
		if err := opening.identify(ctx, shard); err != nil {
			return nil, err
		}
		opening.reached.Store(true)
		return opening.store, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connection returns the connection to a shard, for a call that leaves it, and whether it is still
// to be opened, by somebody who leaves it, too.
func (c *Cluster) connection(shard string) (opening *connection, first bool, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return nil, false, stint.ErrClosed
	}
	opening = c.shards[shard]
	if opening == nil {
		opening, first = &connection{ready: make(chan struct{})}, true
		c.shards[shard] = opening
		opening.users++
	}
	opening.users++
	return opening, first, nil
}

// leave says that a call uses a connection no more. A pattern has a shard of any name, so a shard
// that nobody has reached is forgotten: callers of a service may make up as many as they like.
func (c *Cluster) leave(shard string, of *connection) {
	c.mutex.Lock()
	of.users--
	forget := c.topology.pattern != "" && of.users == 0 && !of.reached.Load() && !c.closed &&
		c.shards[shard] == of
	if forget {
		delete(c.shards, shard)
	}
	if forget && of.store != nil {
		c.forgotten.Go(func() { // a pool may take a while, for which no call waits
			ctx, cancel := context.WithTimeout(context.Background(), settleFor)
			defer cancel()
			_ = of.store.Close(ctx) // which nobody has used
		})
	}
	c.mutex.Unlock()
}

// open connects to a shard. If that fails, the shard is forgotten.
func (c *Cluster) open(ctx context.Context, shard, url string, opening *connection) {
	defer c.leave(shard, opening)
	store, err := c.options.Connect(ctx, shard, url)
	c.mutex.Lock()
	closed := c.closed
	if err != nil || closed {
		delete(c.shards, shard)
	}
	c.mutex.Unlock()
	switch {
	case err != nil:
		opening.err = &ShardError{Shard: shard, Err: err}
	case closed:
		opening.err = errors.Join(stint.ErrClosed, store.Close(ctx))
	default:
		opening.store = store
	}
	close(opening.ready)
}

// known returns the names of the shards in order: all of a static topology; of a pattern, those
// that were reached.
func (c *Cluster) known() []string {
	if names := c.topology.Names(); len(names) > 0 {
		return names
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var names []string
	for shard, of := range c.shards {
		if of.reached.Load() {
			names = append(names, shard)
		}
	}
	slices.Sort(names)
	return names
}

// Close closes the stores of all shards. It waits until they have ended what is under way, or until
// ctx ends.
func (c *Cluster) Close(ctx context.Context) error {
	c.mutex.Lock()
	c.closed = true
	opened := maps.Clone(c.shards)
	c.mutex.Unlock()
	var errs []error
	for shard, opening := range opened {
		select {
		case <-opening.ready:
			if opening.store != nil {
				errs = append(errs, inShard(shard, opening.store.Close(ctx)))
			}
		case <-ctx.Done():
			errs = append(errs, ctx.Err())
		}
	}
	c.forgotten.Wait() // some seconds at most
	return errors.Join(errs...)
}

// A ShardError says at which shard a call has failed.
type ShardError struct {
	Shard string
	Err   error
}

func (e *ShardError) Error() string { return fmt.Sprintf("shard %s: %v", e.Shard, e.Err) }

// Unwrap returns [ShardError.Err].
func (e *ShardError) Unwrap() error { return e.Err }

func inShard(shard string, err error) error {
	var said *ShardError
	if err == nil || errors.As(err, &said) && said.Shard == shard {
		return err
	}
	return &ShardError{shard, err}
}
