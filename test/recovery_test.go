package stint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// However many calls want a connection, four at a time are opened: a server that has just lost all
// of them is not asked for a whole pool by each process.
// Proves G326.
func TestCalls_OpenFewConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	const calls, most = 20, 4
	var opening, peak atomic.Int64
	hold := make(chan struct{})
	pool := poolOf(t, testdb.New(t), func(config *pgxpool.Config) {
		config.MaxConns = calls
		config.BeforeConnect = func(ctx context.Context, _ *pgx.ConnConfig) error {
			if n := opening.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			defer opening.Add(-1)
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	})
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	var callers sync.WaitGroup
	for n := range calls {
		callers.Go(func() {
			_, err := store.GetTasks(t.Context(), []stint.TaskID{stint.TaskID(fmt.Sprint(n))})
			if !errors.Is(err, stint.ErrTaskNotFound) {
				t.Errorf("GetTasks = %v, want %v", err, stint.ErrTaskNotFound)
			}
		})
	}
	eventually(t, soon, "connections are being opened", func() bool {
		return opening.Load() >= most
	})
	<-time.After(50 * time.Millisecond) // time enough for a fifth, if there were one
	close(hold)
	callers.Wait()
	if peak.Load() > most {
		t.Errorf("%d connections were opened at once, want at most %d", peak.Load(), most)
	}
}

// A fetch that waits for a connection in vain leaves nothing behind to be given back: among many,
// that would keep the next ones waiting.
// Proves G326.
func TestOwnTasks_ThatNeverGotAConnectionGivesNothingBack(t *testing.T) {
	t.Parallel()
	pool, spy := spyOn(t, testdb.New(t), 1)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	conn, err := pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	defer conn.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	for n := range 10 {
		callers.Go(func() {
			actor := stint.ActorID(fmt.Sprint(n))
			_, err := store.OwnTasks(ctx, actor, 1, []string{"act"}, time.Hour)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("OwnTasks = %v, want %v", err, context.DeadlineExceeded)
			}
		})
	}
	callers.Wait()
	// Close waits for what goes on behind the callers, which would have a connection of its own.
	wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
	if n := spy.count("bar_claim"); n > 0 {
		t.Errorf("%d claims were given back that nobody can have", n)
	}
}
