//go:build unix

package moves_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// newBinVariable names the directory of the programs of a newer PostgreSQL. Without it, the upgrade
// leads to the same version, which takes the same steps.
const newBinVariable = "STINT_TEST_NEW_PG_BIN"

func TestUpgrade_OfTheServerKeepsEverything(t *testing.T) {
	testrun.Long(t)
	server := testdb.NewServer(t, "", nil)
	oldBin := server.Bin(t, "pg_upgrade")
	pool := server.Pool(t)
	migrate(t, pool)
	before := populate(t, pool, server.Pool(t))
	newBin := os.Getenv(newBinVariable)
	if newBin == "" {
		newBin = oldBin
	}
	t.Setenv("STINT_PG_BIN", newBin)
	newer := testdb.NewServer(t, testdb.NewDir(t, server.Data()), nil)
	newer.Stop(t)
	server.Stop(t)
	sockets := testdb.NewDir(t, server.Data())
	server.Exec(t, filepath.Join(newBin, "pg_upgrade"), "--username", "stint",
		"--old-bindir", oldBin, "--new-bindir", newBin, "--socketdir", sockets,
		"--old-datadir", server.Data(), "--new-datadir", newer.Data())
	upgraded := testdb.NewServer(t, newer.Dir(), nil)
	t.Logf("to %s", yields[string](t, upgraded.Pool(t), "SHOW server_version"))
	before.wantWhole(t, upgraded.Pool(t))
}
