package stint_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stint-tasks/stint"
)

// How long a look and a walk take when tasks with FailFast wait, and none of them was aborted.
func BenchmarkFailFastIdle(b *testing.B) {
	for _, waiting := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			store, pool := newUncheckedStore(b, stint.Options{Maintenance: stint.MaintainNever})
			insert(b, store, stint.Task{ID: "before", Action: "act"})
			tasks := numbered("wait", waiting)
			for i := range tasks {
				tasks[i].After, tasks[i].FailFast = []stint.TaskID{"before"}, true
			}
			if waiting > 0 {
				insert(b, store, tasks...)
				exec(b, pool, "ANALYZE")
			}
			for name, look := range map[string]func(context.Context, *stint.Store) error{
				"look": failFastLook, "walk": failFastWalk,
			} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if err := look(b.Context(), store); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
