package modeltest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
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

// listTasks is one page of a list.
func listTasks(
	ctx context.Context, store *stint.Store, filter stint.Filter,
) ([]stint.TaskInfo, error) {
	page, err := store.ListTasks(ctx, filter)
	return page.Tasks, err
}

// claimOf is the part of a token that the tasks of one hand-out share, as the column claim has it.
func claimOf(id stint.TaskID, token stint.Token) int64 {
	const versionBits = 0xf000
	hash := fnv.New64a()
	hash.Write([]byte(id))
	return int64(binary.BigEndian.Uint64(token[:8]) ^ hash.Sum64()&^versionBits)
}
