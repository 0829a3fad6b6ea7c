package stint_test

import (
	"context"
	"runtime"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/session"
)

// insides is what tests may do with a store that others may not.
type insides interface {
	ClaimOf(id stint.TaskID, token stint.Token) int64
	LeaveTriesUnnoted()
	RecheckAfter(first time.Duration)
	Deliver(fetch, piece int)
	Duty(name string) (all, some func(context.Context) error)
	Waiting() int
}

func insideOf(store *stint.Store) insides { return pg.Of(store).Inside.(insides) }

// awaitNotifier waits until the store has told all that there is to tell.
func awaitNotifier(store *stint.Store) {
	for !pg.Of(store).ToldAll() {
		runtime.Gosched()
	}
}

// recheckNever keeps a store from looking again for capacity after it has parked tasks.
func recheckNever(store *stint.Store) { insideOf(store).RecheckAfter(time.Hour) }

// lookAgainNever keeps a store that begins to listen from looking once more a while later.
func lookAgainNever(store *stint.Store) {
	pg.Of(store).Here.(*session.Session).LookAgainAfter(time.Hour)
}

// fireSchedules returns what a store that maintains does once a second.
func fireSchedules(store *stint.Store) func(context.Context) error {
	_, some := insideOf(store).Duty("insert tasks of schedules")
	return some
}

// pruneSome returns what a store that maintains does again and again to prune.
func pruneSome(store *stint.Store) func(context.Context) error {
	_, some := insideOf(store).Duty("prune finished tasks")
	return some
}

const failFastDuty = "abort what only aborted tasks need"

// failFastWalk looks at all tasks with FailFast, failFastLook at what was aborted lately.
func failFastWalk(ctx context.Context, store *stint.Store) error {
	all, _ := insideOf(store).Duty(failFastDuty)
	return all(ctx)
}

func failFastLook(ctx context.Context, store *stint.Store) error {
	_, some := insideOf(store).Duty(failFastDuty)
	return some(ctx)
}

// shorten makes a store deliver so many bytes of bodies in a fetch, send so many at once, and
// wait so long for a silent database.
func shorten(store *stint.Store, fetch, piece int, silence time.Duration) {
	insideOf(store).Deliver(fetch, piece)
	pg.Of(store).SetSilence(silence)
}
