package stint_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stint-tasks/stint"
)

// BenchmarkFanIn inserts and drains tasks that wait for each other; -benchtime 200000x is how many
// leaves there are. joins=400 is 500 leaves behind each of 400 joins, and one task behind these.
func BenchmarkFanIn(b *testing.B) {
	for _, keep := range []struct {
		name      string
		retention stint.Retention
	}{
		{"kept", stint.Retention{}},
		{"KeepNone", stint.Retention{Completed: stint.KeepNone}},
	} {
		b.Run(keep.name+"/joins=400/insert", func(b *testing.B) {
			bench := newBench(b, keep.retention)
			tasks := fanIn(b.N, 400)
			bench.measure(b, 1, func(int) error {
				return bench.store.InsertTasks(b.Context(), tasks)
			})
		})
		for _, drained := range []struct{ joins, batch, workers int }{
			{400, 1000, 8}, {1, 1000, 8}, {1, 1, 16},
		} {
			name := fmt.Sprintf("%s/joins=%d/batch=%d", keep.name, drained.joins, drained.batch)
			b.Run(name, func(b *testing.B) {
				drainNetwork(b, keep.retention, fanIn(b.N, drained.joins), b.N+1,
					drained.batch, drained.workers)
			})
		}
	}
}

// fanIn is n leaves that joins wait for, and a task that waits for the joins.
func fanIn(n, joins int) []stint.Task {
	tasks := benchTasks("leaf", n)
	last := stint.Task{ID: "last", Action: "bench"}
	for i := range joins {
		id := stint.TaskID(fmt.Sprintf("join-%d", i))
		tasks = append(tasks, stint.Task{ID: id, Action: stint.Spontaneous})
		last.After = append(last.After, id)
	}
	for i := range n {
		tasks[i].ToSignalAfter = []stint.TaskID{tasks[n+i*joins/n].ID}
	}
	return append(tasks, last)
}

// drainNetwork inserts a network and measures how it is drained. Performed is how many of its tasks
// are not spontaneous.
func drainNetwork(
	b *testing.B, keep stint.Retention, tasks []stint.Task, performed, batch, workers int,
) {
	b.Helper()
	bench := newBench(b, keep)
	if err := bench.store.InsertTasks(b.Context(), tasks); err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(performed))
	bench.measure(b, workers, func(worker int) error {
		return drain(b.Context(), bench.store, worker, batch, &left)
	})
}

// BenchmarkCascade ends the first of tasks that wait for one another in a row, and with it all of
// them, in one call: -benchtime 10000x is how deep. In a ladder each waits for the two before it.
func BenchmarkCascade(b *testing.B) {
	for _, cascade := range []struct {
		name, action string
		reach        int
		end          func(b *testing.B, store *stint.Store, first stint.TaskID)
	}{
		{"abort", stint.Spontaneous, 1, abortFirst},
		{"complete", stint.Spontaneous, 1, completeFirst},
		{"complete-ladder", stint.Spontaneous, 2, completeFirst},
		{"delete", "act", 1, deleteFirst},
		{"delete-ladder", "act", 2, deleteFirst},
		{"skip", "act", 1, skipFirst},
	} {
		b.Run(cascade.name, func(b *testing.B) {
			bench := newBench(b, stint.Retention{})
			tasks := row("row", b.N, cascade.reach, cascade.action)
			if cascade.name == "skip" {
				tasks[1].When = []stint.Condition{ended(tasks[0].ID, isAborted)}
				tasks[1].After = nil
			}
			insert(b, bench.store, tasks...)
			bench.measure(b, 1, func(int) error {
				cascade.end(b, bench.store, tasks[0].ID)
				return nil
			})
		})
	}
}

func abortFirst(b *testing.B, store *stint.Store, first stint.TaskID) {
	b.Helper()
	wantErr(b, "AbortTasks", errOf(store.AbortTasks(b.Context(), []stint.TaskID{first}, "")), nil)
}

func skipFirst(b *testing.B, store *stint.Store, first stint.TaskID) {
	b.Helper()
	owned := ownOne(b, store)
	err := store.ReturnTask(b.Context(), first, owned.Token, "", stint.StatusCompleted)
	wantErr(b, "ReturnTask", err, nil)
}

func deleteFirst(b *testing.B, store *stint.Store, first stint.TaskID) {
	b.Helper()
	wantErr(b, "DeleteTasks", errOf(store.DeleteTasks(b.Context(), []stint.TaskID{first})), nil)
}

// BenchmarkChain drains chains: of tasks one by one, and of chords of ten tasks each, with the join
// that the next ten wait for.
func BenchmarkChain(b *testing.B) {
	b.Run("tasks", func(b *testing.B) {
		tasks := benchTasks("link", b.N)
		for i := 1; i < b.N; i++ {
			tasks[i].After = []stint.TaskID{tasks[i-1].ID}
		}
		drainNetwork(b, stint.Retention{}, tasks, b.N, 1, 1)
	})
	b.Run("conditions", func(b *testing.B) {
		tasks := benchTasks("link", b.N)
		for i := 1; i < b.N; i++ {
			tasks[i].When = []stint.Condition{{After: tasks[i-1].ID}}
		}
		drainNetwork(b, stint.Retention{}, tasks, b.N, 1, 1)
	})
	b.Run("chords", func(b *testing.B) {
		drainNetwork(b, stint.Retention{}, chords(b.N), b.N, 10, 2)
	})
}

func chords(n int) []stint.Task {
	const width = 10
	var tasks []stint.Task
	var before []stint.TaskID
	for _, task := range benchTasks("member", n) {
		task.After = before
		tasks = append(tasks, task)
		if len(tasks)%(width+1) == width {
			join := stint.Task{
				ID: stint.TaskID(fmt.Sprintf("join-%d", len(tasks))), Action: stint.Spontaneous,
			}
			for _, member := range tasks[len(tasks)-width:] {
				join.After = append(join.After, member.ID)
			}
			tasks = append(tasks, join)
			before = []stint.TaskID{join.ID}
		}
	}
	return tasks
}
