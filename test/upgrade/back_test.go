//go:build unix

package upgrade_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// Proves G156.
func TestMigrateTo_BackLetsTheOldReleaseGoOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	old, latest := oldRelease(t, pool), newRelease(t, pool)
	latest.must(t, "", "migrate")
	serving, c := latest.serve(t)
	after := side{c, t, "new"}
	w := populate(t, c, after)
	after.insert(stint.Task{ID: "first", Action: "queue"})
	after.insert(stint.Task{ID: "parked", Action: "queue"})
	after.insert(stint.Task{ID: "last", Action: "queue"})
	was := look(t, latest, w.shown)
	serving.stop()
	// As with limits: one task waits for room, and releases for version 1 are refused. A service
	// that maintains would bring the task back.
	execute(t, pool, `UPDATE stint.ready SET limit_key = 'k',
		position = position | (-9223372036854775808)
		FROM stint.tasks WHERE id = 'parked' AND key = lo`)
	execute(t, pool, "UPDATE stint.supported SET since = 2")
	old.wantRefused(t, "2 and up", "ls")

	latest.must(t, "", "migrate", "--to", "1", "--down", "--yes")
	wantVersion(t, pool, 1)
	made := testdb.NewEmpty(t)
	oldRelease(t, made).must(t, "", "migrate")
	if got, want := columns(t, pool), columns(t, made); got != want {
		t.Errorf("back at version 1 there is\n%s\nwant\n%s", got, want)
	}
	old.must(t, "", "migrate")
	wantSame(t, was, look(t, old, w.shown))
	_, c = old.serve(t)
	before := side{c, t, "old"}
	before.wantAsPopulated()
	before.complete(w.owned[0], w.fork, w.late)
	before.complete(w.ownedSpan...)
	before.complete(before.own("bulk", span/2, time.Hour)...)
	queued := before.own("queue", 3, time.Hour)
	order := []stint.TaskID{queued[0].ID, queued[1].ID, queued[2].ID}
	if want := []stint.TaskID{"first", "parked", "last"}; !slices.Equal(order, want) {
		t.Errorf("the queue is %q, want %q", order, want)
	}
	before.complete(queued[:2]...)

	latest.must(t, "", "migrate")
	wantVersion(t, pool, migrations.Version())
	store := openStore(t, pool)
	side{store, t, "new"}.complete(queued[2])
	wantClean(t, store, old)
	wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
}
