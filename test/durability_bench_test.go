package stint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// BenchmarkDurability inserts a task, owns it and returns it, each in a call of its own, through a
// store whose commits wait for the disk, and through one whose commits do not.
func BenchmarkDurability(b *testing.B) {
	for name, durability := range map[string]stint.Durability{
		"Strict": stint.Strict, "Opportunistic": stint.Opportunistic,
	} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				benchmarkDurability(b, durability, callers)
			})
		}
	}
}

func benchmarkDurability(b *testing.B, durability stint.Durability, callers int) {
	b.Helper()
	bench := newBench(b, stint.Retention{})
	store, err := stint.New(bench.pool, stint.Options{
		Durability: durability, Maintenance: stint.MaintainNever,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close(context.WithoutCancel(b.Context())) })
	bench.measure(b, callers, func(caller int) error {
		for range (b.N + callers - 1 - caller) / callers {
			action := fmt.Sprint(caller)
			if err := store.InsertTasks(b.Context(), []stint.Task{{Action: action}}); err != nil {
				return err
			}
			owned, err := store.OwnTasks(b.Context(), "actor", 1, []string{action}, time.Hour)
			if err != nil {
				return err
			}
			for _, task := range owned {
				err := store.ReturnTask(b.Context(), task.ID, task.Token, "", stint.StatusCompleted)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}
