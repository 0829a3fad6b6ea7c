package ui

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/verbs"
)

// A Store has the verbs that the pages ask by: a [*stint.Store], a client of package client, or all
// shards of a cluster: Merged of package shards. The pages of limits, schedules, changes and checks
// are there if it is also a [verbs.Limiter], a [verbs.Scheduler], a [verbs.Auditor], or has Check,
// as the first two have, and changes are offered whose verbs it has. Of shards, each has pages of
// its own besides.
type Store interface{ verbs.Reader }

// A Verb is something that a page does for whoever asks for it.
type Verb string

// The verbs.
const (
	// Read looks at everything but bodies, results and the answers of steps.
	Read Verb = "read"
	// ReadBodies looks at bodies and results.
	ReadBodies Verb = "read-bodies"
	// Check has the store checked, which reads all tables, and looks at what was found.
	Check Verb = "check"
	// Abort, Retry and Delete do that to tasks of whatever action.
	Abort  Verb = "abort"
	Retry  Verb = "retry"
	Delete Verb = "delete"
	// Change changes when tasks that wait start, their priority, key, or limit of tries.
	Change Verb = "change"
	// Pause pauses and resumes actions, keys and schedules.
	Pause Verb = "pause"
	// Limit sets the limits of actions.
	Limit Verb = "limit"
	// Trigger has schedules insert their tasks now.
	Trigger Verb = "trigger"
	// Insert inserts tasks, also copies of others.
	Insert Verb = "insert"
	// Schedule changes when schedules insert their tasks, and deletes schedules. With Insert, it
	// adds schedules.
	Schedule Verb = "schedule"
	// Answer says how tasks ended whose action is [stint.External].
	Answer Verb = "answer"
)

// Changes reports whether a verb changes anything.
func (v Verb) Changes() bool { return v != Read && v != ReadBodies && v != Check }

// Options are what a handler does otherwise than by default.
type Options struct {
	// Title names the store, such as "Shop, staging", at the top of each page. Default: "Stint".
	Title string

	// Authorize says whether whoever sent a request may have a page do something for him. It is
	// called for each request, before the store is asked, and for each of the changes that a page
	// may offer. Default: everybody may do everything that changes nothing ([Verb.Changes]).
	Authorize func(r *http.Request, verb Verb) bool

	// User names whoever sent a request, such as "ann@example.com". The name is noted with each
	// change ([stint.WithAuthor]) and logged, is in the status of tasks that he aborts, and is the
	// actor of his answers. Default: nobody is named.
	User func(r *http.Request) string

	// Format makes the body or the result of a task readable, such as a message of Protocol Buffers
	// or something encrypted: it returns text or JSON. It is called with values of up to 64 KiB, by
	// several goroutines at once; what it returns is cut at 64 KiB. Default: values are shown as
	// they are.
	Format func(task stint.TaskInfo, value []byte) []byte

	// Clock returns the time of the database, which all times of tasks are of. It is called once a
	// minute at most, unless it fails. Default: the clock of this process, until the page of a task
	// has told how much later it is at the database.
	Clock func(ctx context.Context) (time.Time, error)

	// Missing names what the store does not tell of at the moment, such as a shard that is away,
	// for people to read. It is asked for each page, and should return at once. Default: the shards
	// that are away, and otherwise nothing.
	Missing func() []string

	// Check looks for what is wrong with the store, when somebody asks for it. Default: the verb
	// Check of the store; without it, there is no page for that.
	Check func(ctx context.Context) ([]Finding, error)

	// CommandFlags returns what is added to the commands on the page that answers a request, so
	// that these work as they are copied, such as "--schema=tasks". Default: nothing.
	CommandFlags func(r *http.Request) string

	// Timeout is how long the store may take to answer for a page. Default: 5 s.
	Timeout time.Duration

	// Logger logs why the store did not answer; a page only says that it did not. At the level of
	// Info it logs each change: what, by whom and why, and how many tasks. Default: [slog.Default]
	// as of [New], for changes, warnings and errors.
	Logger *slog.Logger
}

// A Finding is something that a check of the store has found: its Severity ("error": a fault;
// "warning": it calls for action; "note": for information), its Topic, its Text, which says what is
// wrong and what to do about it, and the ID of the task that it is about, if there is one.
type Finding = views.Finding
