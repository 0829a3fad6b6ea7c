package stint

import (
	"math"
	"time"
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
	// ID names the task. Default: a random UUID, which the call that inserts the task sets in the
	// caller's slice.
	ID TaskID

	// Action names the procedure to perform; workers ask for tasks by action: 1 to 255 bytes of
	// UTF-8 without NUL.
	Action string

	// Key groups tasks of an action, such as by customer: limits per key and fair shares count by
	// it. 1 to 255 bytes of UTF-8 without NUL. Default: none; limits per key do not apply to the
	// task then.
	Key string

	// Body holds the parameters of the action, at most 64 MiB. The library does not interpret it;
	// nil and empty differ.
	Body []byte

	// AnswerKey is what must come with the answer to a task whose action is [External]; other tasks
	// have none. Default: none, so that whoever may call the store may answer the task.
	AnswerKey AnswerKey

	// Priority puts the task ahead of all tasks with a lower one. Default: 0.
	Priority int16

	// MaxTries is the most times that the task is handed out. A task that is given back, or whose
	// lease expires, on its last try is aborted with [CauseTries]. [UnlimitedTries] means no limit.
	// Default: 25, which takes about four days with the pauses of package worker.
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
}

// UnlimitedTries is the [Task.MaxTries] of a task that may be tried any number of times.
const UnlimitedTries = -1

// OnAbort says what happens to a task when one of its predecessors is aborted.
type OnAbort int16

const (
	// AbortToo aborts the task with [CauseDependency]. It is the default.
	AbortToo OnAbort = iota
	// RunAnyway counts the predecessor as settled, and tells the owner how many were aborted.
	RunAnyway
)

// A StatusCode is where a task is in its life.
type StatusCode string

// The status codes. The last two are final. A return takes pending, completed or aborted.
const (
	StatusPending    StatusCode = "pending"
	StatusInProgress StatusCode = "in-progress"
	StatusCompleted  StatusCode = "completed"
	StatusAborted    StatusCode = "aborted"
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
)

// A TaskInfo is what the store knows about a task at one instant. Times are on the database's
// clock.
type TaskInfo struct {
	// These are as they were inserted. ListTasks leaves out the body.
	ID         TaskID
	Action     string
	Key        string
	Body       []byte
	Priority   int16
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
	FinishedAt time.Time // when a completed or aborted task ended

	// Tries is how often the task has been handed out.
	Tries int

	// Actor is the owner of a task in progress, or whoever owned one when it ended.
	Actor ActorID

	// OwnedAt is when a task in progress was handed out or, if its lease expired after that and the
	// history keeps nothing, when its late owner came back; LeaseUntil is when its lease expires,
	// zero if it does not.
	OwnedAt    time.Time
	LeaseUntil time.Time

	// Status is the owner's latest text for people to read; Progress is how far the task is, from 0
	// to 1, as the owner reported it.
	Status   string
	Progress float64

	// Result is what the owner returned for dependents and waiters. ListTasks leaves it out.
	Result []byte
}

// An OwnedTask is a task that the caller of [Store.OwnTasks] owns.
type OwnedTask struct {
	ID     TaskID
	Token  Token
	Action string
	Key    string // Task.Key, empty if the task has none
	Body   []byte

	// Try is the number of this hand-out of the task, beginning with 1. MaxTries is the Try on
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
