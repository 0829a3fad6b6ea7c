package doctor

import (
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/migrations"
)

// In a copy all that is due is late, and to start a worker would not help.
func TestExamine_ExpectsNoMaintenanceOfACopy(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	touchAll(t, store)
	wantLate := func(want bool) {
		t.Helper()
		found, err := Examine(ctx, pool, store, migrations.DefaultSchema)
		if err != nil {
			t.Fatal(err)
		}
		topics := map[string]bool{}
		for _, f := range found {
			topics[f.Topic] = true
		}
		if topics["maintenance"] != want || topics["schedules"] != want || topics["copy"] == want {
			t.Errorf("found %+v", found)
		}
	}
	_, err = pool.Exec(ctx, `WITH due AS (
			UPDATE stint.scheduled SET not_before = now() - interval '1 h'
		) UPDATE stint.schedules SET next_at = now() - interval '1 h'`)
	if err != nil {
		t.Fatal(err)
	}
	wantLate(true)
	if _, err := pool.Exec(ctx, "UPDATE stint.origin SET written_by = '3'"); err != nil {
		t.Fatal(err)
	}
	wantLate(false)
}
