package stint

import (
	"crypto/rand"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/pg"
)

// A TaskID names a task: 1 to 512 bytes of UTF-8 without NUL, compared byte by byte. It is unique
// among the tasks in the store, finished ones included, until the task is deleted or pruned (R1). A
// random ID, the default, cannot collide; a well-known one, such as the name of a computation,
// ensures that there is only one such task.
type TaskID string

// An ActorID names an actor, which performs tasks, for people to read: 1 to 255 bytes of UTF-8
// without NUL. It gives no rights; those come with the [Token].
type ActorID string

// Spontaneous is the action of tasks that need no worker: such a task completes when its last
// predecessor signals (R14).
const Spontaneous = "stint.Spontaneous"

// A Task is what a caller inserts. Action is required, everything else has a default.
type Task struct {
	// ID names the task. Default: a new UUID of version 7, which the call that inserts the task
	// sets in the caller's slice.
	ID TaskID

	// Action names the procedure to perform; workers ask for tasks by action: 1 to 255 bytes of
	// UTF-8 without NUL.
	Action string

	// Key groups tasks of an action, such as by customer: limits per key and fair shares count by
	// it. 1 to 255 bytes of UTF-8 without NUL. Default: none; limits per key do not apply to the
	// task then.
	Key string

	// Cost is what each try takes from the rates of the action and of its key, and what it counts
	// towards the fair share of the key, if the limits of the action are [Limits.ByCost]: tokens,
	// cents or bytes, say, up to 10⁹. What a try has cost is settled by [Return.Spent]. Default: 1.
	Cost int

	// Body holds the parameters of the action, at most 64 MiB. The library does not interpret it;
	// nil and empty differ.
	Body []byte

	// Headers say something about the task that is no parameter of the action, such as for whom it
	// is done, or of which trace it is a part: up to 16 names with values, of 2 KiB together. Names
	// are 1 to 64 of the characters a-z, 0-9 and -; values are UTF-8 without NUL. All tries of the
	// task get them. Default: what [Options.Headers] says.
	Headers map[string]string

	// AnswerKey is what must come with the answer to a task whose action is [External]; other tasks
	// have none. Default: none, so that whoever may call the store may answer the task.
	AnswerKey AnswerKey

	// Priority puts the task ahead of all tasks with a lower one. Default: 0.
	Priority int16

	// MaxTries is the most times that the task is fetched. A task that is returned as pending
	// without [Return.Release], or whose lease expires, on its last try is aborted with
	// [CauseTries]. [UnlimitedTries]: no limit. Default: 25, about four days with package worker.
	MaxTries int

	// NotBefore is the earliest time to hand the task out, on the database's clock. Default: at
	// once.
	NotBefore time.Time

	// Deadline is the time, on the database's clock, at which the task is aborted with
	// [CauseExpired] unless it has finished. It takes effect within about a second; its owner may
	// return the task until then. Nobody is given it behind its deadline, and no answer to it
	// counts ([External]). Default: none.
	Deadline time.Time

	// PostResult makes it possible to wait for the task, and keeps it for at least an hour after it
	// has finished.
	PostResult bool

	// OnAbort says what happens to the task when a task that it waits for is aborted (R12).
	OnAbort OnAbort

	// FailFast has what only this task needs aborted when this one is: the unfinished tasks that it
	// waits for, and that nothing else waits for but tasks that were aborted, or go with it; and so
	// on for those that they wait for. Tasks with PostResult stay, since somebody may wait for
	// their results. It takes effect promptly behind the abort, within about a second; what others
	// still needed then goes within about a minute after these are aborted, too. The cause is
	// [CauseCancelled], the status names both this task and the one that failed, and owners are
	// told as with [Store.AbortTasks]. To retry the network, name these tasks, too. Default: they
	// go on.
	FailFast bool

	// After are tasks that this one waits for, ToSignalAfter tasks that wait for this one (R2).
	After, ToSignalAfter []TaskID

	// When are further tasks that this one waits for, and how each must end: the task starts when
	// all conditions are met, and is skipped as soon as one cannot be met any more (R23). No task
	// is named twice in When, nor both there and in After.
	When []Condition

	// WhenAny are tasks of which the first that ends as its condition says starts this one; what
	// becomes of the others does not matter then (R23). A task with WhenAny waits for nothing else:
	// After and When are empty, and no dependency can be added. To wait for more, wait for a
	// spontaneous task that has the WhenAny.
	WhenAny []Condition
}

// A Condition is a task that another waits for, and how it must end for the other one to start. In
// When, if it ends otherwise, the other one is skipped; or aborted, if it is aborted, the condition
// does not name StateAborted, and the other one does not run anyway. In WhenAny, the other one goes
// on waiting, and this is decided when all have ended otherwise: it is aborted if one of them was,
// unless it runs anyway, and else skipped. A condition about a task that is replaced or deleted
// before it has ended is not met (R23).
type Condition struct {
	// After is the task to wait for.
	After TaskID `json:"after"`

	// States are the ends that meet the condition: StateCompleted, StateAborted, StateSkipped.
	// Default: StateCompleted.
	States []State `json:"states,omitempty"`

	// Results narrow StateCompleted down: the result of the task must be one of these, byte by
	// byte; none is as an empty one. At most 32, of 255 bytes each. Default: any result.
	Results []string `json:"results,omitempty"`
}

// conditions are all conditions of the task.
func (t *Task) conditions() []Condition { return slices.Concat(t.When, t.WhenAny) }

// predecessors are all tasks that the task says it waits for.
func (t *Task) predecessors() iter.Seq[TaskID] {
	return func(yield func(TaskID) bool) {
		for _, id := range t.After {
			if !yield(id) {
				return
			}
		}
		for _, condition := range t.conditions() {
			if !yield(condition.After) {
				return
			}
		}
	}
}

// External is the action of tasks that nobody is given, since they are performed outside: by a
// person, by another system, or in another database. [Store.AnswerTasks] says how they ended. Until
// then such a task is ready, and its Deadline is how long it waits for an answer.
const External = "stint.External"

// UnlimitedTries is the [Task.MaxTries] of a task that may be tried any number of times.
const UnlimitedTries = -1

// An AnswerKey lets somebody answer one external task who may do nothing else with the store, such
// as a person with a link, or another system that calls back. Whoever inserts the task makes the
// key, [NewAnswerKey], and hands it on with the ID. The store keeps a hash of it only, so it cannot
// be asked for it later. 16 to 255 bytes of UTF-8 without NUL.
type AnswerKey string

// OnAbort says what happens to a task when one of its predecessors is aborted, or skipped, though
// no condition names that end ([Task.When]). With [Task.WhenAny] it says so when all have ended
// otherwise than their conditions say.
type OnAbort int16

const (
	// AbortToo aborts the task with [CauseDependency]; after a skipped predecessor, it skips it. It
	// is the default.
	AbortToo OnAbort = iota
	// RunAnyway counts a predecessor in After as settled that was aborted or skipped, and tells the
	// owner how many were aborted. A task whose conditions are not met it does not start: that is
	// skipped, also where it would be aborted otherwise.
	RunAnyway
)

// A StatusCode is where a task is in its life.
type StatusCode string

// The status codes. The last three are final. A return takes pending, completed or aborted.
const (
	StatusPending    StatusCode = "pending"
	StatusInProgress StatusCode = "in-progress"
	StatusCompleted  StatusCode = "completed"
	StatusAborted    StatusCode = "aborted"
	StatusSkipped    StatusCode = "skipped"
)

// A State refines a [StatusCode]: it also says why a pending task is pending.
type State string

// The states. Blocked, scheduled and ready tasks are pending.
const (
	StateBlocked    State = "blocked"   // predecessors have yet to signal
	StateScheduled  State = "scheduled" // it is too early
	StateReady      State = "ready"     // waits for an owner
	StateInProgress State = "in-progress"
	StateCompleted  State = "completed"
	StateAborted    State = "aborted"
	StateSkipped    State = "skipped" // its condition cannot be met: neither success nor failure
)

// An AbortCause is why a task was aborted.
type AbortCause string

// The causes.
const (
	CauseReturned   AbortCause = "returned"   // its owner aborted it
	CauseTries      AbortCause = "tries"      // its tries were exhausted
	CauseDependency AbortCause = "dependency" // a predecessor was aborted
	CauseCancelled  AbortCause = "cancelled"  // by AbortTasks, or as no longer needed (FailFast)
	CauseReplaced   AbortCause = "replaced"   // by ReplaceTasks
	CauseExpired    AbortCause = "expired"    // its Deadline passed
	CauseLost       AbortCause = "lost"       // several owners in a row died (Options.MaxLosses)
)

// A TaskInfo is what the store knows about a task at one instant. Times are on the database's
// clock.
type TaskInfo struct {
	// These are as they were inserted. ListTasks leaves out the body.
	ID         TaskID
	Action     string
	Key        string
	Body       []byte
	Headers    map[string]string // nil if there are none
	Priority   int16
	Cost       int // 0 for the default, which is 1
	MaxTries   int
	Deadline   time.Time // zero if there is none
	PostResult bool
	OnAbort    OnAbort

	// StatusCode and State say where the task is in its life; State is finer.
	StatusCode StatusCode
	State      State
	AbortCause AbortCause // why an aborted task was aborted

	InsertedAt time.Time // of a debounced task, the first of the calls that it stands for
	NotBefore  time.Time // when a scheduled task becomes ready; a blocked one may have it too
	FinishedAt time.Time // when a completed, aborted or skipped task ended

	// Tries is how often the task has been fetched.
	Tries int

	// Actor is the owner of a task in progress, or whoever owned one when it ended.
	Actor ActorID

	// OwnedAt is when a task in progress, or one that its owner has returned, was fetched for the
	// last time or, if its lease expired after that and the history keeps nothing, when its late
	// owner came back; LeaseUntil is when its lease expires, zero if it does not.
	OwnedAt    time.Time
	LeaseUntil time.Time

	// Status is the latest text for people: of the owner, of who aborted the task, or the store's,
	// of an expired lease. Progress is how far the task is, from 0 to 1, as the owner reported it.
	Status   string
	Progress float64

	// TotalDependencies is how many tasks this one waits or waited for, counted up to 100,000, but
	// for those that left the store after this one had ended. Signals is how many of them it waits
	// for no longer: all, unless it is blocked. Only GetTasks, Explain and waits tell them.
	TotalDependencies, Signals int

	// Result is what the owner returned for dependents and waiters. ListTasks leaves it out.
	Result []byte
	// Hidden says that a service has left out the body and the result, whether there are any or
	// not, since the caller may not read them.
	Hidden bool
}

// An OwnedTask is a task that the caller of [Store.OwnTasks] owns.
type OwnedTask struct {
	ID     TaskID
	Token  Token
	Action string
	Key    string // Task.Key, empty if the task has none
	Body   []byte

	// Headers are those of the task, nil if it has none.
	Headers map[string]string

	// InsertedAt is [TaskInfo.InsertedAt].
	InsertedAt time.Time

	// Try is the number of this fetch of the task, beginning with 1. MaxTries is the Try on
	// which the task is aborted if it is returned as pending, or UnlimitedTries.
	Try, MaxTries int

	// Completed and Aborted are how many of the tasks that this one waited for were completed and
	// aborted. A spontaneous task that completed stands for the tasks that it waited for.
	Completed, Aborted int

	// LeaseUntil is when the lease expires unless it is extended, on the database's clock; zero if
	// it does not expire.
	LeaseUntil time.Time
}

// NoExpiry is a lease that never expires: if its owner dies, the task stays in progress until
// somebody aborts it.
const NoExpiry time.Duration = math.MaxInt64

// A Dependency says that one task waits for another.
type Dependency struct{ Predecessor, Dependent TaskID }

// The causes as the table finished holds them; 0 is none, the task completed.
const (
	causeReturned   int16 = 1
	causeTries      int16 = 2
	causeDependency int16 = 3
	causeCancelled  int16 = 4
	causeReplaced   int16 = 5
	causeExpired    int16 = 6
	causeDeleted    int16 = 7 // never recorded: the task leaves the store
	causeSkipped    int16 = 8 // the task is skipped, which is no abort
	causeLost       int16 = 9
)

// The states as the view task_states numbers them. An aborted or skipped task has stateCompleted
// plus its cause.
const (
	stateBlocked    int16 = 0
	stateScheduled  int16 = 1
	stateReady      int16 = 2
	stateInProgress int16 = 3
	stateCompleted  int16 = 10
)

// A numberedState is what a number of a state says.
type numberedState struct {
	state State
	code  StatusCode
	cause AbortCause
}

// numbered are the states by their numbers. A later release may have more causes.
//
//nolint:gochecknoglobals // never changes
var numbered = map[int16]numberedState{
	stateBlocked:                     {StateBlocked, StatusPending, ""},
	stateScheduled:                   {StateScheduled, StatusPending, ""},
	stateReady:                       {StateReady, StatusPending, ""},
	stateInProgress:                  {StateInProgress, StatusInProgress, ""},
	stateCompleted:                   {StateCompleted, StatusCompleted, ""},
	stateCompleted + causeReturned:   {StateAborted, StatusAborted, CauseReturned},
	stateCompleted + causeTries:      {StateAborted, StatusAborted, CauseTries},
	stateCompleted + causeDependency: {StateAborted, StatusAborted, CauseDependency},
	stateCompleted + causeCancelled:  {StateAborted, StatusAborted, CauseCancelled},
	stateCompleted + causeReplaced:   {StateAborted, StatusAborted, CauseReplaced},
	stateCompleted + causeExpired:    {StateAborted, StatusAborted, CauseExpired},
	stateCompleted + causeSkipped:    {StateSkipped, StatusSkipped, ""},
	stateCompleted + causeLost:       {StateAborted, StatusAborted, CauseLost},
}

func ofNumber(number int16) numberedState {
	if of, ok := numbered[number]; ok {
		return of
	}
	return numbered[stateCompleted+causeExpired]
}

// stateOf is the state with a number.
func stateOf(number int16) State { return ofNumber(number).state }

// stateNumbers are the numbers of a state; none if there is no such state.
func stateNumbers(state State) (numbers []int16) {
	for number, of := range numbered {
		if of.state == state {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// triesDefault is Task.MaxTries where it is 0. Peers have 20 to 25.
const triesDefault = 25

// triesLimit returns how often the task is fetched at most in the form of the tables, where 0 is
// no limit. A spontaneous task has no tries to count.
func (t *Task) triesLimit() int32 {
	switch {
	case t.MaxTries == UnlimitedTries, t.Action == Spontaneous:
		return 0
	case t.MaxTries == 0:
		return triesDefault
	}
	return int32(t.MaxTries) //nolint:gosec // checked
}

// maxTries returns a limit of the tables in the form of the API.
func maxTries(limit int32) int {
	if limit == 0 {
		return UnlimitedTries
	}
	return int(limit)
}

// readInfo reads a row in the form of get_tasks, and further columns after that.
func readInfo(row pgx.Rows, more ...any) (TaskInfo, error) {
	var info TaskInfo
	var state int16
	var triesLimit int32
	var deadline, until, ownedAt pgtype.Timestamptz
	var actor, status, key *string
	var encoded pgtype.Text
	var cost *int
	var progress *float64
	err := row.Scan(append([]any{
		&info.ID, &info.Action, &info.Body, &info.Priority, &triesLimit, &deadline,
		&info.OnAbort, &info.PostResult, &info.InsertedAt, &state, &info.Tries, &actor, &until,
		&ownedAt, &status, &progress, &info.Result, &key, &encoded,
		&cost,
	}, more...)...)
	if err != nil {
		return info, err
	}
	if info.Headers, err = headers.Decode(encoded.String); err != nil {
		return info, err
	}
	info.Cost = pg.OrZero(cost)
	info.MaxTries = maxTries(triesLimit)
	info.Deadline, info.OwnedAt = finite(deadline), finite(ownedAt)
	if actor != nil {
		info.Actor = ActorID(*actor)
	}
	if key != nil {
		info.Key = *key
	}
	if status != nil {
		info.Status = *status
	}
	if progress != nil {
		info.Progress = *progress
	}
	info.place(state, finite(until))
	return info, nil
}

// finite returns a time in the form of the API: zero for none.
func finite(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// place fills in the state of the task, and the time that belongs to that state.
func (info *TaskInfo) place(state int16, until time.Time) {
	of := ofNumber(state)
	info.StatusCode, info.State, info.AbortCause = of.code, of.state, of.cause
	switch of.state {
	case StateBlocked, StateScheduled:
		info.NotBefore = until
	case StateReady:
	case StateInProgress:
		info.LeaseUntil = until
	case StateCompleted, StateAborted, StateSkipped:
		info.FinishedAt = until
	}
}

// depends fills in for how many tasks the task waits: missing of the counted ones, of which there
// may be more than were counted.
func (info *TaskInfo) depends(counted, missing int) {
	info.TotalDependencies = max(counted, missing)
	info.Signals = info.TotalDependencies - missing
}

func (t *Task) check() error {
	if err := checkText("Task.ID", string(t.ID), idBytesMax); err != nil {
		return err
	}
	if err := checkText("Task.Action", t.Action, actionBytesMax); err != nil {
		return err
	}
	if t.Key != "" {
		if err := checkText("Task.Key", t.Key, keyBytesMax); err != nil {
			return err
		}
	}
	if t.AnswerKey != "" {
		if err := t.AnswerKey.check("Task.AnswerKey"); err != nil {
			return err
		}
	}
	if err := checkHeaders("Task.Headers", t.Headers); err != nil {
		return err
	}
	switch {
	case t.AnswerKey != "" && t.Action != External:
		return argumentError("Task.AnswerKey", "is for tasks with the action "+External)
	case len(t.Body) > bodyBytesMax:
		return tooLarge("Task.Body bytes", len(t.Body), bodyBytesMax)
	case t.Cost < 0 || t.Cost > costMax:
		return argumentError("Task.Cost", "must be 0 to 1000000000")
	case t.MaxTries < UnlimitedTries || t.MaxTries > math.MaxInt32:
		return argumentError("Task.MaxTries", "must be UnlimitedTries or 0 to 2147483647")
	case t.OnAbort != AbortToo && t.OnAbort != RunAnyway:
		return argumentError("Task.OnAbort", "must be AbortToo or RunAnyway")
	case !pg.IsStorable(t.NotBefore):
		return argumentError("Task.NotBefore", "must be between the years 1 and 9999")
	case !pg.IsStorable(t.Deadline):
		return argumentError("Task.Deadline", "must be between the years 1 and 9999")
	}
	for _, id := range t.After {
		if err := checkText("Task.After", string(id), idBytesMax); err != nil {
			return err
		}
	}
	for _, id := range t.ToSignalAfter {
		if err := checkText("Task.ToSignalAfter", string(id), idBytesMax); err != nil {
			return err
		}
	}
	return t.checkConditions()
}

// OncePer returns an ID for a task that is inserted once in each period: the ID with the start of
// the period that a time is in. Whoever inserts a task with it first in a period adds it; for all
// others [Store.InsertTasks] returns [ErrTaskExists], which then means that the period has had its
// task.
//
// Periods follow one another from 1970-01-01T00:00:00Z on, whatever the location of the time: days
// of 24 hours begin at midnight UTC, hours on the hour, and weeks of 168 hours on a Thursday.
//
//	OncePer("report/tenant-7", at, 24*time.Hour) // report/tenant-7@2026-11-22T00:00:00Z
//	OncePer("report/tenant-7", at, time.Hour)    // report/tenant-7@2026-11-22T13:00:00Z
//
// For days elsewhere, put the date there into an ID of your own. A task whose period changes, such
// as from a day to an hour, may be inserted twice in the old period, or not in the first new one,
// since both may have the same ID.
//
// The time may come from a process's clock: where clocks differ, they differ about when a period
// begins, but no period gets two tasks. The ID stays taken until the task is pruned. So the
// retention of completed and aborted tasks ([Retention]) must be at least the period; with
// [KeepNone] the ID is free as soon as the task has ended.
//
// The ID gets up to 31 bytes longer, and inserts refuse IDs of more than 512 bytes. OncePer panics
// if the ID is empty, with which all tasks of a period would be one, or the period is not positive.
func OncePer(id TaskID, at time.Time, period time.Duration) TaskID {
	if id == "" || period <= 0 {
		//nolint:forbidigo // a mistake in the program, and there is no error to return
		panic("stint: OncePer needs an ID and a positive period")
	}
	// Truncate counts from the year 1 on, which is no multiple of most periods before 1970.
	epoch := time.Unix(0, 0)
	offset := epoch.Sub(epoch.Truncate(period))
	start := at.Add(-offset).Truncate(period).Add(offset)
	return id + "@" + TaskID(start.UTC().Format(time.RFC3339Nano))
}

// texts returns IDs as the parameter of a statement.
func texts(ids []TaskID) []string {
	strings := make([]string, len(ids))
	for i, id := range ids {
		strings[i] = string(id)
	}
	return strings
}

// NewAnswerKey returns a random key that cannot be guessed, of letters and digits, fit for a link.
func NewAnswerKey() AnswerKey { return AnswerKey(rand.Text()) }

// String hides the key, which gives control over the task, from logs. A conversion to string yields
// it.
func (k AnswerKey) String() string {
	if k == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides the key as String does.
func (k AnswerKey) GoString() string { return fmt.Sprintf("stint.AnswerKey(%q)", k.String()) }

func (k AnswerKey) check(argument string) error {
	if err := checkText(argument, string(k), answerKeyBytesMax); err != nil {
		return err
	}
	if len(k) < answerKeyBytesLeast {
		return argumentError(argument, fmt.Sprintf("must have %d bytes or more: see NewAnswerKey",
			answerKeyBytesLeast))
	}
	return nil
}

const (
	answerKeyBytesLeast = 16
	answerKeyBytesMax   = 255
)
