package stint_test

import (
	"fmt"
	"testing"

	"github.com/stint-tasks/stint"
)

// What a look of a maintainer costs while none of ten thousand schedules is due.
func BenchmarkSchedulesIdle(b *testing.B) {
	store, pool := newUncheckedStore(b, stint.Options{PollOnly: true})
	schedules := make([]stint.Schedule, 10_000)
	for i := range schedules {
		schedules[i] = stint.Schedule{
			Name: fmt.Sprintf("s%05d", i), Spec: "@yearly", Tasks: []stint.Task{{Action: "act"}},
		}
	}
	if err := store.PutSchedules(b.Context(), schedules); err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), "ANALYZE stint.schedules"); err != nil {
		b.Fatal(err)
	}
	fire := fireSchedules(store)
	for b.Loop() {
		if err := fire(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
