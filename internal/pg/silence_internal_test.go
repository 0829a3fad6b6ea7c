package pg

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Among many who wait for a connection, the last one waits for long though the database answers.
// That is no reason to fail, as it is if nobody gets one.
func TestWithAnswerLimit_CountsOnlyWhileNobodyGetsAConnection(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	config := testdb.New(t).Config()
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := open(t, pool)
	const pieces, seconds = 4, 4 // together longer than SilenceMax
	asking, asked := make(chan struct{}, pieces), make(chan error, pieces)
	for range pieces {
		go func() {
			asking <- struct{}{}
			_, err := pool.Exec(t.Context(), "SELECT pg_sleep($1)", seconds)
			asked <- err
		}()
	}
	for range pieces {
		<-asking
	}
	conn, err := db.acquireSoon(t.Context())
	if err != nil {
		t.Fatalf("acquireSoon behind others = %v", err)
	}
	defer conn.release()
	for range pieces {
		if err := <-asked; err != nil {
			t.Error(err)
		}
	}
	// The connection stays away: nobody gets one.
	if _, err := db.acquireSoon(t.Context()); !errors.Is(err, ErrSilent) {
		t.Errorf("acquireSoon where nobody gets a connection = %v", err)
	}
}

// The end of the caller's context is not the silence of the database.
func TestWithAnswerLimit_TellsTheEndOfTheContextFromSilence(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	brief, silence := context.WithCancel(ctx)
	defer silence()
	cancel()
	if err := silentIf(brief, ctx, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("silentIf = %v, want %v", err, context.Canceled)
	}
}
