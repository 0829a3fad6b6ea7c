// Package stint keeps tasks in PostgreSQL, owned by token.
//
// A [Task] has an ID, the name of an action and a body. [Store.InsertTasks] adds tasks atomically,
// also within the caller's own transaction ([Store.WithTx]). Worker loops call [Store.OwnTasks],
// which fetches ready tasks, each with a performance [Token] and for the time of a lease. The
// caller with the newest token of a task owns it: only this token is accepted when the lease is
// extended ([Store.ExtendTasksOwnership]), the status is set ([Store.SetStatus]) and the task is
// returned ([Store.ReturnTask]), as completed, as aborted, or for another try. When a lease
// expires, the task is ready for others; a late owner may still return it until another caller is
// given it.
//
//	InsertTasks → pending → OwnTasks → in-progress → ReturnTask → completed or aborted
//	                 ↑                      |
//	                 +--- ReturnTask, or the lease expires
//
// # The verbs
//
// Begin with these ten:
//
//	InsertTasks           adds tasks            AddDependencies  makes tasks wait for others
//	OwnTasks              fetches tasks       WaitForTask      waits for the end of a task
//	WaitToOwnTasks        waits, then the same  AbortTasks       cancels tasks and dependents
//	ExtendTasksOwnership  extends leases        GetTasks         returns tasks by their IDs
//	ReturnTask            ends a fetch       ListTasks        lists tasks
//
// The package worker calls those on the left. There are more verbs
//
//   - for tasks that may be there: EnsureTasks; for streams: InsertTasksFrom;
//   - for tasks that change: ReplaceTasks, Debounce, ChangeTasks, DeleteTasks, RetryTasks, DryRun;
//   - for owners: ReturnTasks, ReturnAndOwnTasks, SetStatus, Fence, HoldOwnership, Inputs,
//     RecordStep, Steps, OwnershipContext, WatchOwnership; for processes: RegisterActor;
//   - for looking at tasks: Stats, Minutes, Explain, Graph, Problems, History, ListActors,
//     ListChanges, Ends;
//   - for operators: Maintain, Prune, Check, and the function Adopt;
//   - for schedules: PutSchedules, EnsureSchedules, ListSchedules and others of that name;
//   - for limits: SetLimits, ListLimits, SetWeights, Pause, Resume, PauseKeys, ResumeKeys;
//   - for tasks that are performed outside: AnswerTasks;
//   - for services: those of [Store.Remote].
//
// [Store] says what happens if the connection breaks during a call. The numbers R1 to R23 are rules
// in the [guarantees].
//
// # Dependencies
//
// A task may wait for others ([Task.After], [Task.ToSignalAfter], [Store.AddDependencies]). When a
// task ends, its dependents are signalled in the same transaction: the last signal makes a
// dependent ready, or completes it if its action is [Spontaneous], and an abort aborts it unless it
// runs anyway ([OnAbort]). Its owner is told how its predecessors ended, and [Store.Inputs] gives
// their results. The package structures builds chains, groups, chords and networks.
//
// A task may also start by how others end, or with which result: when all of its conditions are met
// ([Task.When]), or the first of several ([Task.WhenAny]). If they cannot be met any more, the task
// is skipped ([StateSkipped]), a third way to end beside completed and aborted: nobody performs it,
// and it is no failure. What waits for a skipped task is skipped, too, unless it runs anyway or has
// a condition that says so. A condition about a task that is replaced or deleted before it has
// ended is not met (R23).
//
// # Waiting
//
// [Store.WaitForTask], [Store.WaitToOwnTasks] and [Store.OwnershipContext] are woken within
// milliseconds by notifications, for which a store has one connection of its own. In case one is
// lost, they also poll, or one store looks for all, once a second. [Store.RegisterActor] binds the
// tasks of an actor to that connection: if the process dies, they are handed on within about a
// second.
//
// # Being performed more than once
//
// An owner may die after its work and before it has returned the task, or be so late that another
// caller has been given the task. So make the work idempotent, or do it in the transaction that
// returns the task, where the token protects it.
//
// # The database
//
// The database is the only clock: it measures leases, schedules and deadlines, from the call and
// not from the start of a transaction. The clocks of workers may be wrong.
//
// The package migrations makes the tables, in a schema of their own. Statements name that schema,
// so search_path does not matter, and nothing depends on the state of a session: a transaction
// pooler may be used, if the pool's default query mode does not prepare statements.
//
// [guarantees]: https://github.com/stint-tasks/stint/blob/main/docs/design/guarantees.md
package stint

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/bodies"
	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/clock"
	"github.com/stint-tasks/stint/internal/counts"
	"github.com/stint-tasks/stint/internal/duty"
	"github.com/stint-tasks/stint/internal/ends"
	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/prune"
	"github.com/stint-tasks/stint/internal/responses"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/internal/schedule"
	"github.com/stint-tasks/stint/internal/session"
	"github.com/stint-tasks/stint/internal/waiters"
)

// Options adjust a [Store]. The zero value is a good default.
type Options struct {
	// Schema is the database schema that the migrations made, up to 63 bytes. Default: "stint".
	Schema string

	// Retention says how long finished tasks stay.
	Retention Retention

	// History says which ended tries of tasks are kept, for [Store.History].
	History HistoryOptions

	// WithoutMinutes keeps the store, where it maintains, from noting what happens in each minute,
	// for [Store.Minutes].
	WithoutMinutes bool

	// MaxLosses is how many owners in a row may lose a task. The last loss aborts it with
	// [CauseLost], however many tries are left: it seems to kill who performs it. A task is lost if
	// its lease expires or the process of its owner dies, unless that owner extends or returns it
	// after all (R13). A try that was returned ends the row; one that was given back, as
	// [Return.Release] says, does not count. A process that dies loses all tasks that it owns. The
	// store that takes a task back goes by its own option, so give all stores the same: between 3
	// and 1,000, or [UnlimitedLosses]. Default: 3.
	MaxLosses int

	// Maintenance says when the store does the work of [Store.Maintain] in the background. Default:
	// [MaintainWhenOwning].
	Maintenance Maintenance

	// Durability says whether the store's transactions wait for the disk. In the caller's
	// transaction ([Store.WithTx]) the caller decides. Default: [Strict].
	Durability Durability

	// Grace is how long the session of the store may be lost, up to ten years, before the tasks of
	// its registered actors are handed on: see [Store.RegisterActor]. Default: 500 ms.
	Grace time.Duration

	// PollOnly makes the store work without a session, the connection on which it listens for
	// notifications, and send none. Use it behind a pooler that gives each transaction another
	// connection, and where the server has no LISTEN or is to have no NOTIFY (R20). Waiting calls
	// then poll every PollInterval, all that wait to own tasks together, and actors cannot be
	// registered. Other stores, even if they listen, notice what this one does when they poll next.
	// A store that polls only hears nothing of the others, so it does all maintenance itself.
	PollOnly bool

	// PollInterval is how often waiting calls poll, at least 1 ms. It and a quarter of it are the
	// most that a lost notification costs (R19) and, with PollOnly, how long a wait may take to
	// notice. Calls that wait to own tasks share a poll, and need none while another store looks
	// for all. It is a second by default.
	PollInterval time.Duration

	// Environment is where the store works, such as "staging", in up to 255 bytes. The first store
	// that has one names the database. If that has another name, the database is a copy: [ErrCopy].
	// So copies of files are told from the original, as nothing else can. Default: none, which is
	// never refused.
	Environment string

	// ActInCopies makes the store hand out tasks and maintain in copies, too.
	ActInCopies bool

	// Headers returns headers for the tasks that a call inserts, by the context of the call, such
	// as those of a trace: see package stintotel. Tasks that have one of them already get none,
	// since they belong together; others get those that are allowed and fit in, the shortest first.
	// Default: none.
	Headers func(context.Context) map[string]string

	// Logger logs failures of background work: each kind at once, then once a minute as long as it
	// lasts, and when it works again. Verbs return their errors instead. Default: [slog.Default] as
	// of [New], for warnings and errors.
	Logger *slog.Logger
}

// Durability says when a change is on disk.
type Durability int

const (
	// Strict commits as the server, the role or the connection is set up to: by default, a change
	// is on disk before the call returns.
	Strict Durability = iota

	// Opportunistic does not wait for the disk, so calls are faster. A crash of the server loses
	// the changes of the last moments: at most three times its wal_writer_delay, which is 0.6 s by
	// default. What is left is the state after some earlier change: no change is lost unless all
	// later ones are, too, and none is lost that was committed before one that was not
	// opportunistic. A lost change is undone completely, as if it had never been made: a task that
	// was inserted is not there, the token of an owner is refused, a task that was returned is
	// performed again. So use it for tasks that may be repeated, or that their source can insert
	// again.
	Opportunistic
)

// KeepForever and KeepNone are ages for [Retention].
const (
	// KeepForever keeps finished tasks until they are deleted.
	KeepForever time.Duration = math.MaxInt64
	// KeepNone drops finished tasks at once, which is faster than keeping them. A repeated return
	// then fails with [ErrInvalidToken] rather than [ErrAlreadyReturned], and a repeated insert of
	// a task that has been performed meanwhile inserts it again.
	KeepNone time.Duration = -1
)

// Retention is how long finished tasks stay before they are pruned (R18). Tasks with PostResult
// stay for at least an hour, and the predecessors of a task until that task has completed or been
// pruned. Until then their IDs are taken (R1). Skipped tasks stay for as long as aborted ones.
//
// The retention belongs to the store, not to the database: if several stores share a schema, the
// shortest retention wins.
type Retention struct {
	// Completed is the age at which completed tasks are pruned. Default: 24 hours.
	Completed time.Duration
	// Aborted is the age at which aborted tasks are pruned, and skipped ones. Default: 7 days.
	Aborted time.Duration
	// Changes is the age at which is forgotten who has changed what: see [WithAuthor]. Default: 90
	// days.
	Changes time.Duration
}

// UnlimitedLosses is the [Options.MaxLosses] of a store that aborts no task because its owners die.
const UnlimitedLosses = -1

const (
	lossesDefault = 3
	// A worker prefetches tasks up to their second try: a loss of what it had not begun then ends
	// no task.
	lossesLeast = 3
	lossesMax   = 1000

	graceDefault        = 500 * time.Millisecond
	pollIntervalDefault = time.Second
)

const (
	retentionCompletedDefault  = 24 * time.Hour
	retentionAbortedDefault    = 7 * 24 * time.Hour
	retentionChangesDefault    = 90 * 24 * time.Hour
	retentionPostResultMinimum = time.Hour
)

// schemaVersion is the version of the migrations that the statements of this release are written
// for.
const schemaVersion = 2

// gatePrefix begins the IDs of tasks that hold an insert over several shards up (package shards).
const gatePrefix = "stint.gate/"

//go:embed sql/*/*.sql
var statementFiles embed.FS

// statements are those of sql/.
//
//nolint:gochecknoglobals // never changes
var statements = pg.NewStatements(statementFiles)

// New returns a store that uses pool. The pool stays the caller's: [Store.Close] does not close it.
// New does not contact the database; if the schema is missing or has another version, the first
// verb returns [ErrSchemaVersion].
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("new store: %w", argumentError("pool", "must not be nil"))
	}
	opts, keep, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	db, err := pg.New(config(pool, opts))
	if err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	store := &Store{db: db, handle: pg.NewHandle(db), core: &core{
		fetchBytes: bodies.MostDefault, pieceBytes: bodies.PieceDefault, headers: opts.Headers,
		maxLosses: max(opts.MaxLosses, 0),
		keep:      keep.toEngine(), triesKept: opts.History.Tries, triesAge: opts.History.Age,
		withoutMinutes: opts.WithoutMinutes,
		poll:           opts.PollInterval, logger: opts.Logger, logs: newFailureLogs(opts.Logger),
		goingOn: make(chan struct{}, 1), givenUp: make(chan struct{}),
	}}
	store.stats = counts.NewNotes(db)
	store.limits = limit.New(limit.Config{
		DB: db, Ready: readyTopic, Requeued: func(action string) { store.queues.Forget(action) },
		CheckSessions: func(ctx context.Context) error {
			_, err := store.on(db.Acting()).checkSessions(ctx, false)
			return err
		},
	})
	if !opts.PollOnly {
		store.session = session.New(session.Config{
			DB: db, Grace: opts.Grace, Topics: actionsMax, Waited: store.isWaitedFor,
			Heard: store.heard, Told: store.told, Any: store.heardAny, Leave: store.leave,
		})
	}
	db.Here = store.session
	store.watch = session.NewWatch(
		store.session, opts.Logger, store.on(db.Unhurried().Acting()).checkSessions)
	store.poller = &waiters.Poller{
		Waiters: &store.awaiting, Every: opts.PollInterval, Look: store.pollReady,
		Failed: func(ctx context.Context, err error) bool {
			return pg.Failed(ctx, store.logs.polled, err)
		},
	}
	store.giveUp = sync.OnceFunc(func() { close(store.givenUp) })
	db.Inside = inside{store}
	store.groups = store.newGroups()
	store.waiting.Prepare()
	if store.owning, err = store.startMaintenance(opts.Maintenance); err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	return store, nil
}

// withDefaults returns the options with defaults for what is not set, and for how long finished
// tasks are kept, or an [*ArgumentError].
func (o Options) withDefaults() (Options, Retention, error) {
	o.Schema = cmp.Or(o.Schema, "stint")
	o.PollInterval = cmp.Or(o.PollInterval, pollIntervalDefault)
	o.Grace = cmp.Or(o.Grace, graceDefault)
	o.MaxLosses = cmp.Or(o.MaxLosses, lossesDefault)
	o.Logger = safely.LoggerOr(o.Logger)
	refuse := func(option, why string) (Options, Retention, error) {
		return Options{}, Retention{}, argumentError("Options."+option, why)
	}
	switch {
	case o.Grace < 0 || o.Grace > leaseMax:
		return refuse("Grace", "must be between 0 and ten years")
	case o.MaxLosses != UnlimitedLosses && (o.MaxLosses < lossesLeast || o.MaxLosses > lossesMax):
		return refuse("MaxLosses", "must be between 3 and 1,000, or UnlimitedLosses")
	case o.PollInterval < time.Millisecond:
		return refuse("PollInterval", "must be at least a millisecond")
	case o.Durability != Strict && o.Durability != Opportunistic:
		return refuse("Durability", "must be Strict or Opportunistic")
	}
	err := checkText("Options.Schema", o.Schema, schemaBytesMax)
	if err == nil && o.Environment != "" {
		err = checkText("Options.Environment", o.Environment, environmentBytesMax)
	}
	if err != nil {
		return Options{}, Retention{}, err
	}
	if err := o.History.check(); err != nil {
		return Options{}, Retention{}, err
	}
	keep, err := o.Retention.withDefaults()
	return o, keep, err
}

func config(pool *pgxpool.Pool, opts Options) pg.Config {
	return pg.Config{
		Pool: pool, Schema: opts.Schema, Version: schemaVersion,
		Statements: []*pg.Statements{
			statements, changes.Statements, clock.Statements,
			counts.Statements, duty.Statements, ends.Statements, limit.Statements, prune.Statements,
			responses.Statements, schedule.Statements, session.Statements,
		},
		Literals:    []string{Spontaneous, External, gatePrefix},
		Environment: opts.Environment, ActInCopies: opts.ActInCopies,
		CommitEarly: opts.Durability == Opportunistic, PollOnly: opts.PollOnly, Logger: opts.Logger,
	}
}

func (r Retention) withDefaults() (Retention, error) {
	for _, age := range []time.Duration{r.Completed, r.Aborted, r.Changes} {
		if age < 0 && age != KeepNone {
			return r, argumentError("Options.Retention", "ages must not be negative")
		}
	}
	r.Completed = cmp.Or(r.Completed, retentionCompletedDefault)
	r.Aborted = cmp.Or(r.Aborted, retentionAbortedDefault)
	r.Changes = cmp.Or(r.Changes, retentionChangesDefault)
	return r, nil
}

// toEngine returns the retention as nil for ever, and 0 for not at all.
func (r Retention) toEngine() prune.Keep {
	age := func(keep time.Duration) *time.Duration {
		if keep == KeepForever {
			return nil
		}
		keep = max(keep, 0)
		return &keep
	}
	return prune.Keep{
		Completed: age(r.Completed), Aborted: age(r.Aborted), Results: retentionPostResultMinimum,
		Changes: age(r.Changes),
	}
}

func (s *Store) newGroups() groups {
	return groups{
		inserts: &groupcommit.Group[bool, Task, error]{
			Run: s.insertTogether, Size: taskSize, Clone: cloneTask, MayHaveRun: pg.WasCutOff,
			Go: s.db.Start,
		},
		owns: &groupcommit.Group[ownKey, exchange, ownAnswer]{
			Run: s.ownTogether, Size: exchange.size, Clone: exchange.clone, Undo: s.release,
			MayHaveRun: mayHaveOwned, Go: s.db.Start,
		},
		extends: &groupcommit.Group[extendKey, []OwnedTask, []bool]{
			Run: s.extendTogether, Size: func(owned []OwnedTask) int { return len(owned) },
			Clone: slices.Clone[[]OwnedTask], MayHaveRun: pg.WasCutOff, Go: s.db.Start,
		},
		returns: &groupcommit.Group[struct{}, []Return, []error]{
			Run: s.returnTogether, Size: returnsSize, Clone: cloneReturns,
			MayHaveRun: pg.WasCutOff, Go: s.db.Start,
		},
		records: &groupcommit.Group[struct{}, recordedCall, recordAnswer]{
			Run: s.recordTogether, Size: recordedCall.size, MayHaveRun: pg.WasCutOff,
			Go: s.db.Start,
		},
		lists: &groupcommit.Group[struct{}, OwnedTask, listAnswer]{
			Run: s.listTogether, MayHaveRun: func(error) bool { return false }, Go: s.db.Start,
		},
	}
}

// inside is what tests of this module may do with a store, by Config.Inside of its DB.
type inside struct{ store *Store }

// ClaimOf returns the part of a token that the tasks of one fetch share.
func (inside) ClaimOf(id TaskID, token Token) int64 { return int64(token.performance(id).claim) }

// LeaveTriesUnnoted keeps the store from noting tries, for tests that count its requests.
func (i inside) LeaveTriesUnnoted() { i.store.stats.LeaveUnnoted() }

// RecheckAfter sets after how long the store looks again for capacity, after it has parked tasks.
func (i inside) RecheckAfter(first time.Duration) { i.store.limits.SetRecheckAfter(first) }

// Deliver sets how many bytes of bodies a fetch delivers, and how many the server sends at once.
func (i inside) Deliver(fetch, piece int) {
	i.store.fetchBytes, i.store.pieceBytes = fetch, piece
}

// Duty returns a part of maintenance by its name: all of it, and what the background does.
func (i inside) Duty(name string) (all, some func(context.Context) error) {
	for _, part := range i.store.upkeeps() {
		if part.Work == name {
			return part.all, part.Do
		}
	}
	return nil, nil
}

// Waiting returns how many tasks are waited for.
func (i inside) Waiting() int { return i.store.waiting.Count() }

// heard takes note of a notification of another store.
func (s *Store) heard(kind, rest string) {
	switch kind {
	case duty.Kind:
		s.heardNews(duty.ParseNews(rest))
	case session.Busy, kindReady:
		s.watch.Stir()
	}
	s.told(kind, rest)
}

// told wakes those whom a message concerns.
func (s *Store) told(kind, rest string) {
	switch kind {
	case kindReady:
		s.awaiting.Ready(rest)
	case kindFinished:
		s.waiting.Woken(pg.ParseKeys(rest))
		s.endNews.Come()
	case kindLost: // who owns is asked of callers, which whoever tells must not wait for
		keys := pg.ParseKeys(rest)
		s.db.StartBackground(func(context.Context) { s.owners.lostSome(keys) })
	}
}

// heardNews takes note of what a store has done for all.
func (s *Store) heardNews(news duty.News) {
	s.roster.Load().Hear(news)
	if news.Has(dutyDue) {
		s.watch.Heard(news.Busy)
	}
	if news.Has(duty.Ready) && s.session.ListensToAll() {
		s.poller.Looked()
	}
}

// heardAny wakes all who wait: nobody was told of anything that happened before.
func (s *Store) heardAny() {
	s.awaiting.Any()
	s.waiting.WokenAny()
	s.endNews.Come()
	s.owners.lostAny()
}

// Maintenance says when a store maintains the schema in the background. Stores that hear one
// another share the work: one of them does it for all, and another one goes on if that one is gone.
type Maintenance int

const (
	// MaintainWhenOwning takes part from the first call of OwnTasks on: wherever a worker runs,
	// leases expire and deadlines take effect.
	MaintainWhenOwning Maintenance = iota
	// MaintainAlways takes part from New on.
	MaintainAlways
	// MaintainNever leaves it to the other stores on the schema and to [Store.Maintain].
	MaintainNever
)
