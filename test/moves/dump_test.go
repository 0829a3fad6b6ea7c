//go:build unix

package moves_test

import (
	"path/filepath"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestDump_RestoredElsewhereIsWhole(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	from, to := testdb.NewServer(t, "", nil), testdb.NewServer(t, "", nil)
	bin := from.Bin(t, "pg_dump", "pg_restore")
	pool := from.Pool(t)
	migrate(t, pool)
	before := populate(t, pool, pool)
	file := filepath.Join(testdb.NewDir(t, from.Data()), "dump")
	from.Exec(t, filepath.Join(bin, "pg_dump"), "--format", "custom", "--schema", "stint",
		"--file", file, from.Address(t, "postgres"))
	to.Exec(t, filepath.Join(bin, "pg_restore"), "--exit-on-error", "--single-transaction",
		"--dbname", to.Address(t, "postgres"), file)
	wantErr(t, "Adopt", stint.Adopt(t.Context(), openIdle(t, to.Pool(t))), nil)
	before.wantWhole(t, to.Pool(t))
}
