package stint_test

import (
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// newStore returns a store on a database of its own, maintained by nobody but the test.
func newStore(tb testing.TB) *stint.Store {
	tb.Helper()
	store, err := stint.New(testdb.New(tb), stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		tb.Fatalf("New = %v", err)
	}
	return store
}
