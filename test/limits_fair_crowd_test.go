package stint_test

import (
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// To put tasks of many keys into the queues of their keys costs each key the same.
// Proves L7.
func TestFair_ATaskOfAnotherKeyCostsTheSameBehindManyKeys(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, limits := range []stint.Limits{{Fair: true}, {Fair: true, FairGroup: "group"}} {
		pages := func(keys int) int {
			store, pool := newLookingStore(t, limits)
			insert(t, store, ofKeys("task", keys)...)
			exec(t, pool, "VACUUM ANALYZE")
			name := "queue_turns"
			if limits.FairGroup != "" {
				name = "queue_shared"
			}
			return pagesOf(t, pool, name, "'{act}'")
		}
		few, many := pages(500), pages(4000)
		t.Logf("%+v: %d and %d pages", limits, few, many)
		if many > 12*few {
			t.Errorf("%+v: %d pages for 4,000 keys and %d for 500, want 8 times as many",
				limits, many, few)
		}
	}
}

// A fetch that finds many keys at their limits looks at them in pieces, so that no statement is
// long, and still fetches the task behind them in one call.
// Proves L4, L5.
func TestFair_ManyKeysAtTheirLimitsAreLookedAtInPieces(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, group := range []string{"", "group"} {
		store, pool := newLookingStore(t, stint.Limits{
			ConcurrencyPerKey: 1, Fair: true, FairGroup: group,
		})
		const keys = 600
		insert(t, store, ofKeys("owned", keys)...)
		for owned := 0; owned < keys; {
			owned += len(own(t, store, keys))
		}
		insert(t, store, ofKeys("waits", keys)...)
		insert(t, store, stint.Task{ID: "free", Action: "act", Key: "last"})
		queue, deal := "queue_turns('{act}')", "deal_turns('{act}', 1, false)"
		if group != "" {
			queue, deal = "queue_shared('{act}')", "deal_shared('{act}', 1, false)"
		}
		tx := begin(t, pool)
		run(t, tx, queue)
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		for want := 250; want <= 500; want += 250 {
			tx := begin(t, pool)
			run(t, tx, deal)
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			held := yields[int](t, pool, "SELECT count(*) FROM stint.turns WHERE held")
			if held != want {
				t.Errorf("group %q: %d turns are held, want %d", group, held, want)
			}
		}
		wantFetch(t, store, 1, "free")
	}
}
