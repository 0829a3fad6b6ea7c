//go:build unix

package moves_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// movable returns a pool that connects to whichever server move was called with last, as behind a
// name that is given to another host.
func movable(tb testing.TB, first *testdb.Server) (pool *pgxpool.Pool, move func(*testdb.Server)) {
	tb.Helper()
	var host atomic.Value
	host.Store(first.Pool(tb).Config().ConnConfig.Host)
	config := first.Pool(tb).Config()
	config.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		conn.Host, _ = host.Load().(string)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	wantErr(tb, "NewWithConfig", err, nil)
	tb.Cleanup(pool.Close)
	return pool, func(s *testdb.Server) {
		host.Store(s.Pool(tb).Config().ConnConfig.Host)
		pool.Reset() // a connection that was just in use is taken for one that stands
	}
}

// A server that is restored to an earlier moment has given out keys and claims that it does not
// know of. Processes that still have them do no harm, and go on.
func TestBackup_RestoredToAPointInTimeIsAsItWasThen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	archive := testdb.NewDir(t, "")
	server := testdb.NewServer(t, "", map[string]string{
		"archive_mode": "on", "archive_command": "cp %p " + archive + "/%f",
	})
	bin := server.Bin(t, "pg_basebackup")
	wantErr(t, "Chmod", os.Chmod(archive, 0o777), nil)
	restoredDir := testdb.NewDir(t, server.Data())
	data := filepath.Join(restoredDir, "data")

	pool, move := movable(t, server)
	migrate(t, pool)
	server.Exec(t, filepath.Join(bin, "pg_basebackup"), "--checkpoint", "fast",
		"--wal-method", "none", "--no-manifest", "--pgdata", data,
		"--dbname", server.Address(t, "postgres"))
	before := populate(t, pool, server.Pool(t))
	survivor := before.store
	exec(t, pool, "SELECT pg_create_restore_point('before the mistake')")
	for _, n := range []int{40 * 1000, 1} { // the server logs values of a sequence in advance
		tasks := named(fmt.Sprintf("lost %d/", n), n)
		wantErr(t, "InsertTasks", survivor.InsertTasks(t.Context(), tasks), nil)
	}
	lastKey := yields[int64](t, pool, "SELECT max(key) FROM stint.tasks")
	owned, err := survivor.OwnTasks(t.Context(), "b", 5, []string{"bulk"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	file := yields[string](t, pool, "SELECT pg_walfile_name(pg_switch_wal())")
	eventually(t, "the end of the log in the archive", func() bool {
		_, err := os.Stat(filepath.Join(archive, file))
		return err == nil
	})
	server.Stop(t)

	signal := filepath.Join(data, "recovery.signal")
	wantErr(t, "WriteFile", os.WriteFile(signal, nil, 0o600), nil)
	server.Own(t, signal)
	restored := testdb.NewServer(t, restoredDir, map[string]string{
		"restore_command": "cp " + archive + "/%f %p", "recovery_target_action": "promote",
		"recovery_target_name": "before the mistake", "archive_mode": "off",
	})
	move(restored)
	eventually(t, "the end of the recovery", func() bool {
		return !yields[bool](t, restored.Pool(t), "SELECT pg_is_in_recovery()")
	})
	other := openStore(t, restored.Pool(t))
	var extra []stint.TaskID
	for yields[int64](t, pool, "SELECT max(key) FROM stint.tasks") <= lastKey {
		tasks := named(fmt.Sprintf("extra %d/", len(extra)), 1000)
		wantErr(t, "InsertTasks", other.InsertTasks(t.Context(), tasks), nil)
		for _, task := range tasks {
			extra = append(extra, task.ID)
		}
	}
	// This store has keys left that the server has given out again.
	tasks := named("kept ", 2)
	wantErr(t, "InsertTasks", survivor.InsertTasks(t.Context(), tasks[:1]), nil)
	wantErr(t, "InsertTasks", survivor.InsertTasks(t.Context(), tasks[1:]), nil)
	extra = append(extra, tasks[0].ID, tasks[1].ID)
	err = survivor.ReturnTask(t.Context(), owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask of a task that was ready then", err, stint.ErrInvalidToken)
	for some := range slices.Chunk(extra, 10_000) {
		_, err = survivor.DeleteTasks(t.Context(), some)
		wantErr(t, "DeleteTasks", err, nil)
	}
	before.wantWhole(t, restored.Pool(t))
}
