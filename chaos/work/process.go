package work

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// Variable is the environment variable that makes the program one of its processes; it holds a
// [Job].
const Variable = "STINT_CHAOS_JOB"

// The kinds of processes.
const (
	Worker     = "worker"
	Loops      = "loops"
	Operator   = "operator"
	Service    = "service"
	Client     = "client"
	Shard      = "shard"
	Python     = "python"
	TypeScript = "typescript"
)

// A Job is what a process does.
type Job struct {
	Kind, Name string
	// Number counts the starts of the process, Round the rounds on its database.
	Number, Round int
	Seed          uint64
	URL           string // of the database, through a proxy
	Schema        string
	Address       string // of the service, a host and a port
	Shard         string // the URL of another server, which has a shard
	Journal       string // the path
	// Cursor is the path of the cursor of whoever follows ends; empty: nobody does.
	Cursor string
	// Retention is how long finished tasks stay; 0: as by default.
	Retention time.Duration
}

// The orders that a process gets on its standard input. Its end is the order to end.
const (
	// OrderPace has it insert so many tasks a second: "pace 100". A pace of 0 is as many as are
	// performed, a negative one is none.
	OrderPace = "pace "
)

// sayEvery is how often a process says how many tasks it has completed.
const sayEvery = 250 * time.Millisecond

// A process is what the workloads of a process share.
type process struct {
	Job
	journal *Journal
	logger  *slog.Logger
	tally   tally
	paces   atomic.Int64
	ids     atomic.Int64
	known   known
}

// A tally counts completed tasks.
type tally struct{ done atomic.Int64 }

func (t *tally) add(n int) { t.done.Add(int64(n)) }

// Main is what a process does, until its standard input ends.
func Main(ctx context.Context, job string) (err error) {
	p := &process{}
	if err := json.Unmarshal([]byte(job), &p.Job); err != nil {
		return err
	}
	if p.journal, err = OpenJournal(p.Journal, fmt.Sprintf("%s.%d", p.Name, p.Number)); err != nil {
		return err
	}
	p.journal.Write(Call{Verb: Born, Outcome: OK})
	p.logger = slog.New(slog.DiscardHandler)
	if os.Getenv("STINT_CHAOS_LOG") != "" {
		p.logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	slog.SetDefault(p.logger)
	p.paces.Store(-1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		p.obey(os.Stdin)
		stop()
	}()
	go p.say(ctx)
	workloads := map[string]func(context.Context) error{
		Worker: p.work, Loops: p.loops, Operator: p.operate, Service: p.serve,
		Client: p.beClient, Shard: p.shard,
	}
	do, ok := workloads[p.Kind]
	if !ok {
		return fmt.Errorf("there is no process of the kind %q", p.Kind)
	}
	return errors.Join(do(ctx), p.journal.Close())
}

// obey follows orders until there are no more.
func (p *process) obey(orders io.Reader) {
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		if pace, ok := strings.CutPrefix(lines.Text(), OrderPace); ok {
			if n, err := strconv.ParseInt(pace, 10, 64); err == nil {
				p.paces.Store(n)
			}
		}
	}
}

// say says how many tasks were completed.
func (p *process) say(ctx context.Context) {
	beat := time.NewTicker(sayEvery)
	defer beat.Stop()
	for {
		fmt.Fprintf(os.Stdout, "done %d\n", p.tally.done.Swap(0))
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

// open opens a store.
func (p *process) open(ctx context.Context, conns int32, options stint.Options) (
	*stint.Store, *pgxpool.Pool, error,
) {
	config, err := pgxpool.ParseConfig(p.URL)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = conns
	config.ConnConfig.ConnectTimeout = 3 * time.Second
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	options.Schema, options.Logger = p.Schema, p.logger
	options.Retention = stint.Retention{Completed: p.Retention, Aborted: p.Retention}
	store, err := stint.New(pool, options)
	return store, pool, err
}

// closing closes a store and its pool.
func closing(ctx context.Context, store *stint.Store, pool *pgxpool.Pool) error {
	const most = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	_ = store.Close(ctx) // what it could not give back, leases will
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return errors.New("connections do not end")
	}
}

// random returns the choices of a part of the process.
func (p *process) random(part uint64) *rand.Rand {
	const partsMax = 1000
	h := hash(p.Name) + uint64(p.Number)*partsMax + part //nolint:gosec // never negative
	return rand.New(rand.NewPCG(p.Seed, h))              //nolint:gosec // to be repeated
}

// callMax is how long callers wait for a verb.
const callMax = 10 * time.Second

// call calls a verb, and writes down what came of it.
func (p *process) call(
	ctx context.Context, verb string, items []Item, do func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	call := Call{Verb: verb, Begin: Instant(), Items: items, Outcome: asked}
	if KindOf(verb) == Changes { // others may be told of it, if this process is killed before it is
		p.journal.Write(call)
	}
	err := do(ctx)
	call.Outcome, call.Error = Judge(err)
	p.journal.Write(call)
	return err
}

// Pause waits, and reports whether ctx has not ended.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
