package shards_test

import (
	"errors"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// On each shard the numbers that its owners draw grow, and late ones are refused.
// Proves G329.
func TestStore_FencesOwnersOfItsShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	inserted := []shards.Task{task("1/a"), task("2/a", "1/a")}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), inserted), nil)
	d.relay(t, shards.Options{})
	for _, shard := range []string{"1", "2"} {
		store, err := c.Store(t.Context(), shard)
		wantErr(t, "Store", err, nil)
		var last stint.OwnedTask
		for before := int64(0); last.Try < 3; {
			owned := d.own(t, shard)
			fence, err := store.Fence(t.Context(), owned)
			if err != nil || fence <= before {
				t.Fatalf("try %d on shard %s: Fence = %d, %v, want more than %d", owned.Try, shard,
					fence, err, before)
			}
			if last.ID != "" {
				_, err = store.Fence(t.Context(), last)
				wantErr(t, "Fence of the owner before", err, stint.ErrInvalidToken)
			}
			before, last = fence, owned
			code := stint.StatusPending
			if owned.Try == 3 {
				code = stint.StatusCompleted
			}
			verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
				ID: owned.ID, Token: owned.Token, Code: code,
			}})
			wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
		}
	}
}
