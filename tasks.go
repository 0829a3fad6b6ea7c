package stint

import (
	"time"
)

// A TaskID names a task: 1 to 512 bytes of UTF-8 without NUL, compared byte by byte. It is unique
// among the tasks in the store, finished ones included, until the task is deleted or pruned (R1). A
// random ID cannot collide; a well-known one, such as the name of a computation, makes sure there
// is only one such task.
type TaskID string

// An ActorID names whoever performs tasks, for people to see: 1 to 255 bytes of UTF-8 without NUL.
// It gives no rights; those come with the [Token].
type ActorID string

// Spontaneous is the action of tasks that need no worker: such a task completes itself when its
// last predecessor signals (R14).
const Spontaneous = "stint.Spontaneous"

// A Task is what a caller inserts. ID and Action are needed, everything else has a default.
type Task struct {
	// ID names the task.
	ID TaskID

	// Action names the procedure to perform, by which workers pick tasks: 1 to 255 bytes of UTF-8
	// without NUL.
	Action string

	// Body holds the parameters of the action, at most 64 MiB. The library does not look into it;
	// nil and empty differ.
	Body []byte

	// Priority puts the task ahead of all tasks with a lower one. Default: 0.
	Priority int16

	// MaxTries is how often the task is handed out at most. A task that is given back, or whose
	// lease expires, after that many tries is aborted with [CauseTries]. Default: 0, no limit.
	MaxTries int

	// NotBefore is the earliest time to hand the task out, on the database's clock. Default: at
	// once.
	NotBefore time.Time

	// Deadline is the time, on the database's clock, at which the task is aborted with
	// [CauseExpired] unless it has finished. It takes effect within about a second. Default: none.
	Deadline time.Time

	// PostResult makes it possible to wait for the task, and keeps it for an hour at least after
	// it has finished.
	PostResult bool

	// OnAbort says what happens to the task when a task that it waits for is aborted (R12).
	OnAbort OnAbort

	// ToSignalAfter are tasks that wait for this one (R2).
	ToSignalAfter []TaskID

	// After are tasks that this one waits for (R2).
	After []TaskID
}

// OnAbort is what a task does when one of its predecessors is aborted.
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

// A State is a [StatusCode] that tells apart why a pending task is pending.
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
	CauseCancelled  AbortCause = "cancelled"  // by AbortTasks
	CauseReplaced   AbortCause = "replaced"   // by ReplaceTasks
	CauseExpired    AbortCause = "expired"    // its Deadline passed
)

// TaskInfo is what the store reports of a task at one instant.
type TaskInfo struct {
	// These are as they were inserted.
	ID         TaskID
	Action     string
	Body       []byte // nil from ListTasks
	Priority   int16
	MaxTries   int
	Deadline   time.Time // zero: none
	PostResult bool
	OnAbort    OnAbort

	InsertedAt time.Time

	// StatusCode and State say where the task is in its life, the state more finely.
	StatusCode StatusCode
	State      State

	// AbortCause says why an aborted task was aborted.
	AbortCause AbortCause

	// Tries is how often the task has been handed out.
	Tries int

	// Actor is the owner of a task in progress, or the last owner of one that it returned.
	Actor ActorID

	// NotBefore is when a scheduled task becomes ready; a blocked one may have it too.
	NotBefore time.Time

	// OwnedAt is when a task in progress was handed out; or, if its lease has expired since, when
	// its late owner came back.
	OwnedAt time.Time

	// LeaseUntil is when the lease on a task in progress expires, zero if it does not.
	LeaseUntil time.Time

	// FinishedAt is when a completed or aborted task ended.
	FinishedAt time.Time

	// Status is what the owner last said of the task, for people to read.
	Status string

	// Progress is how far the owner said it is, from 0 to 1.
	Progress float64

	// Result is what the owner returned for dependents and waiters; nil from ListTasks.
	Result []byte
}
