package model_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"hash/fnv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func exec(tb testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

func wantErr(tb testing.TB, call string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Fatalf("%s = %v, want %v", call, got, want)
	}
}

type lister interface {
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
}

// listTasks is one page of a list.
func listTasks(
	ctx context.Context, from lister, filter stint.Filter,
) ([]stint.TaskInfo, error) {
	page, err := from.ListTasks(ctx, filter)
	return page.Tasks, err
}

// claimOf is the part of a token that the tasks of one fetch share, as the column claim has it.
func claimOf(id stint.TaskID, token stint.Token) int64 {
	const versionBits = 0xf000
	hash := fnv.New64a()
	hash.Write([]byte(id))
	return int64(binary.BigEndian.Uint64(token[:8]) ^ hash.Sum64()&^versionBits)
}

// plainPool is a pool whose connections do not compile queries: here that takes longer than to run
// them.
func plainPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config := testdb.New(t).Config()
	config.ConnConfig.RuntimeParams["jit"] = "off"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// newBudget says when a test with random input has looked long enough, unless it was asked for
// more.
func newBudget(t *testing.T) (spent func() bool) {
	t.Helper()
	limit := time.Duration(testrun.Rounds(10)) * time.Second
	if rapidChecksGiven() {
		limit = time.Hour
	}
	began := time.Now()
	return func() bool { return time.Since(began) > limit }
}

func rapidChecksGiven() (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	return given
}

// checkWithin checks a property of a database that is empty at first, again and again until the
// budget is spent. What has failed is looked at until its shortest form is found.
func checkWithin(t *testing.T, pool *pgxpool.Pool, empty string, property func(*rapid.T)) {
	t.Helper()
	spent, failed := newBudget(t), false
	rapid.Check(t, func(t *rapid.T) {
		if spent() && !failed {
			return
		}
		defer func() { failed = failed || t.Failed() }()
		if _, err := pool.Exec(t.Context(), empty); err != nil {
			t.Fatal(err)
		}
		property(t)
	})
}

// one reports true about one time in n.
func one(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}
