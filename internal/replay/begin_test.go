//go:build unix

package replay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/replay"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// A history that begins while others commit leaves their rows as they are: it does not look at rows
// whose commit the log has and the server does not yet know of. (Otherwise 40 rounds lost rows in
// two of five runs.)
func TestOpen_LeavesTheRowsOfOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	settings := logical()
	settings["fsync"], settings["max_wal_senders"] = "on", "20"
	server := testdb.NewServer(t, "", settings)
	pool := server.Pool(t)
	if err := migrations.MigratePool(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	const writers = 16
	ctx, stop := context.WithCancel(t.Context())
	inserted := make(chan int)
	for w := range writers {
		go func() { inserted <- insertUntil(ctx, t, server.Pool(t), w) }()
	}
	const rounds = 20
	for i := range rounds {
		h, err := replay.Open(t.Context(), pool.Config().ConnConfig, replay.Options{
			Slot: fmt.Sprintf("begun_%d", i), Temporary: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	var want, got int
	for range writers {
		want += <-inserted
	}
	err := pool.QueryRow(t.Context(), "SELECT count(*) FROM stint.tasks").Scan(&got)
	if err != nil || got < want {
		t.Errorf("the table has %d tasks, %v, and %d were inserted", got, err, want)
	}
}

// insertUntil inserts tasks one by one, and returns how many were.
func insertUntil(ctx context.Context, t *testing.T, pool *pgxpool.Pool, writer int) (n int) {
	t.Helper()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever, PollOnly: true})
	if err != nil {
		t.Error(err)
		return 0
	}
	defer store.Close(context.WithoutCancel(ctx))
	for ; ctx.Err() == nil; n++ {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		err := store.InsertTasks(within, []stint.Task{
			{ID: stint.TaskID(fmt.Sprintf("%d/%d", writer, n)), Action: "act"},
		})
		cancel()
		if err != nil {
			t.Error(err)
			return n
		}
	}
	return n
}
