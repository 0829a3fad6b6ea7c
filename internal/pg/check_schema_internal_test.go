package pg

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A DB whose config names no version works where the schema has none.
func TestCheckUsable_ChecksOnlyAVersionThatIsNotZero(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	for version, want := range map[int32]error{0: nil, 1: ErrSchemaVersion} {
		db, err := New(Config{
			Pool: pool, Schema: "stint", Version: version, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Now(t.Context()); !errors.Is(err, want) {
			t.Errorf("version %d: Now = %v, want %v", version, err, want)
		}
	}
}
