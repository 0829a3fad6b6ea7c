package duty

import (
	"context"
	"embed"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

// Found is what a look has found.
type Found struct {
	// Due says in how long scheduled tasks, leases or deadlines are due, Schedule in how long a
	// schedule is; nil: not within a second.
	Due, Schedule *time.Duration
	// Failed says that tasks with FailFast may have been aborted lately, Limited that there is
	// something of limits to tidy up, Kept that there is something else, and Ready that some task
	// is ready.
	Failed, Limited, Kept, Ready bool
	// Busy says that some task is in progress, Others that there are sessions of other stores.
	Busy, Others bool
	// Without is the name of a duty of which the look says nothing.
	Without string
}

// Now is when there is work at once, if there is work at all.
func Now(isWork bool) *time.Duration {
	if !isWork {
		return nil
	}
	return new(time.Duration)
}

// A Bulletin is where stores look for work and tell one another of it.
type Bulletin struct {
	DB *pg.DB
	// Session returns the number of the store's session; 0: it has none.
	Session func() int64
	// Topic returns the topic of those who wait for tasks with an action: a prefix, and the action.
	Topic func(action string) string

	// looked is when a look last began. whole is when one last looked for everything, took how long
	// it took, with what came of it, and limited whether there was something of limits.
	looked, whole time.Time
	took          atomic.Int64
	limited       bool
	// alone says that the last look found no sessions of others, and told is when it last told
	// something.
	alone atomic.Bool
	told  time.Time
}

// aloneEvery is how often a store tells news that nobody but its own session hears. It is often
// enough for the session to need no ping.
const aloneEvery = time.Second

// Ready is the name of the duty to tell again of ready tasks that nobody takes.
const Ready = "ready"

// wholeShare is how much longer the pauses between looks for everything are than a look, up to
// wholeMost: where much has gone that an old transaction still sees, every such look walks over its
// entries. The looks between pass over ready tasks, for which those who wait poll, and over what
// was due before the last look, unless that is longer ago than wholeLate: the statement says how
// far back it goes.
const (
	wholeShare = 50
	wholeMost  = 10 * time.Second
	wholeLate  = 4 * time.Second
)

// Look looks whether there is work and, if there is none, tells the news.
func (b *Bulletin) Look(ctx context.Context, news News) (found Found, told bool, err error) {
	began := now()
	rest := min(wholeShare*time.Duration(b.took.Load()), wholeMost)
	whole := began.Sub(b.whole) > rest || began.Sub(b.looked) > wholeLate
	if !whole {
		found.Without = Ready
		delete(news.done, Ready)
	}
	tells, ifBusy := news.payload()
	if b.DB.PollOnly || b.alone.Load() && began.Sub(b.told) < aloneEvery {
		tells = ""
	}
	look := func() error {
		return b.DB.Run(ctx, pg.Step{
			Name: "look_for_work", Args: []any{b.DB.Schema, tells, ifBusy, whole, b.Session()},
			Read: func(rows pgx.Rows) error {
				into := []any{
					&found.Due, &found.Schedule, &found.Failed, &found.Limited, &found.Kept,
					&found.Ready, &found.Busy, &found.Others, &told,
				}
				_, err := pgx.ForEachRow(rows, into, func() error { return nil })
				return err
			},
		})
	}
	err = look()
	if pg.IsCode(err, pg.CodeLimitExceeded) { // the server's queue is full
		b.DB.LogUnsent(ctx, err)
		tells = ""
		err = look()
	}
	if told {
		b.told = began
	}
	if err == nil {
		b.looked = began
		b.alone.Store(!found.Others)
	}
	if whole {
		b.whole, b.limited = began, found.Limited
		b.took.Store(int64(time.Since(began)))
	}
	found.Limited = b.limited
	return found, told, err
}

// Tell tells the other stores news.
func (b *Bulletin) Tell(ctx context.Context, news News) error {
	tells, ifBusy := news.payload()
	if tells == "" || b.DB.PollOnly || b.alone.Load() {
		return nil
	}
	if news.Busy {
		tells += ifBusy
	}
	return b.DB.Run(ctx, pg.Step{
		Name: "tell", NoPlanner: true, Args: []any{b.DB.Schema, tells},
	})
}

// wantedMax is how many actions one statement looks at.
const wantedMax = 1000

// Remind tells again of ready tasks: those who wait for them may have missed that they came.
func (b *Bulletin) Remind(ctx context.Context) error {
	if b.DB.PollOnly {
		return nil
	}
	began := now()
	defer func() { b.took.Add(int64(time.Since(began))) }()
	for behind, more := "", true; more; {
		var actions []string
		var last *string
		err := b.DB.Run(ctx, pg.Step{
			Name: "wanted_actions", Args: []any{behind, wantedMax, b.Topic("")},
			Read: func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&actions, &last}, func() error { return nil })
				return err
			},
		})
		if err != nil {
			return err
		}
		if err := b.remindOf(ctx, actions); err != nil {
			return err
		}
		behind, more = pg.OrZero(last), last != nil
	}
	return nil
}

// remindOf tells of those of the actions of which tasks can be fetched.
func (b *Bulletin) remindOf(ctx context.Context, actions []string) error {
	if len(actions) == 0 {
		return nil
	}
	from, to := make([]int64, len(actions)), make([]int64, len(actions))
	for i := range to {
		to[i] = math.MaxInt64
	}
	var ready []string
	err := b.DB.Run(ctx, ReadyStep(actions, from, to, &ready))
	if err != nil {
		return err
	}
	pending := &pg.Notices{}
	for _, action := range ready {
		pending.Add(b.Topic(action))
	}
	b.DB.Notify(ctx, pending)
	return nil
}

// ReadyStep finds those of the actions of which tasks can be fetched, within ranks as those of
// own_tasks.
func ReadyStep(actions []string, from, to []int64, ready *[]string) pg.Step {
	return pg.Step{
		Name: "ready_actions", Args: []any{actions, from, to},
		Read: func(rows pgx.Rows) (err error) {
			*ready, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		},
	}
}
