package stint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// BenchmarkPruneShapes prunes finished tasks of several shapes; -benchtime 200000x is how many, and
// how many older ones stay where some do, each in a span of its own.
func BenchmarkPruneShapes(b *testing.B) {
	for _, shape := range []struct {
		name   string
		kept   func(p *pruneBench) // what stays
		tasks  func(n int) []stint.Task
		status string // one that is not empty makes spans of one
	}{
		{name: "spans of many", tasks: pruneTasks},
		{name: "spans of one", tasks: pruneTasks, status: "done"},
		{name: "chords", tasks: pruneChords},
		{name: "chords, spans of one", tasks: pruneChords, status: "done"},
		{name: "chords with joins", tasks: pruneChordsWithJoins},
		{name: "behind aborted", tasks: pruneTasks, kept: (*pruneBench).keepAborted},
		{name: "behind awaited", tasks: pruneTasks, kept: (*pruneBench).keepAwaited},
		{name: "chords behind awaited", tasks: pruneChords, kept: (*pruneBench).keepAwaited},
	} {
		b.Run(shape.name, func(b *testing.B) {
			p := &pruneBench{B: b, bench: newBench(b, stint.Retention{})}
			if shape.kept != nil {
				shape.kept(p)
			}
			tasks := shape.tasks(b.N)
			p.end(tasks, stint.StatusCompleted, shape.status)
			p.prune(int64(len(tasks)))
		})
	}
}

// A pruneBench has a store that ends tasks, and keeps them.
type pruneBench struct {
	*testing.B
	*bench
}

// end inserts tasks and ends all that have to be performed, many at a time.
func (p *pruneBench) end(tasks []stint.Task, code stint.StatusCode, status string) {
	p.Helper()
	if err := p.store.InsertTasks(p.Context(), tasks); err != nil {
		p.Fatal(err)
	}
	for {
		owned, err := p.store.OwnTasks(p.Context(), "actor", 1000, []string{"bench"}, time.Hour)
		if err != nil {
			p.Fatal(err)
		}
		if len(owned) == 0 {
			return
		}
		returns := make([]stint.Return, len(owned))
		for i, task := range owned {
			returns[i] = stint.Return{
				ID: task.ID, Token: task.Token, Code: code, Status: status,
			}
		}
		verdicts, err := p.store.ReturnTasks(p.Context(), returns)
		if err != nil {
			p.Fatal(err)
		}
		for _, verdict := range verdicts {
			if verdict != nil {
				p.Fatal(verdict)
			}
		}
	}
}

// keepAborted leaves aborted tasks behind, which are kept for ever.
func (p *pruneBench) keepAborted() {
	p.end(benchTasks("aborted", p.N), stint.StatusAborted, "broken")
}

// keepAwaited leaves tasks behind whose results unfinished ones may ask for: nobody owns these.
func (p *pruneBench) keepAwaited() {
	const fanIn = 1000
	tasks := benchTasks("awaited", p.N)
	for from := 0; from < p.N; from += fanIn {
		waiting := stint.Task{ID: stint.TaskID(fmt.Sprintf("waiting-%d", from)), Action: "nobody's"}
		for _, task := range tasks[from:min(from+fanIn, p.N)] {
			waiting.After = append(waiting.After, task.ID)
		}
		tasks = append(tasks, waiting)
	}
	p.end(tasks, stint.StatusCompleted, "done")
}

// prune measures how another store prunes these completed tasks, of which there are n, with the
// statistics that autovacuum gathers within a minute.
func (p *pruneBench) prune(n int64) {
	p.Helper()
	if err := p.store.Close(p.Context()); err != nil {
		p.Fatal(err)
	}
	store, err := stint.New(p.pool, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention:   stint.Retention{Completed: time.Microsecond, Aborted: stint.KeepForever},
	})
	if err != nil {
		p.Fatal(err)
	}
	if _, err := p.pool.Exec(p.Context(), "VACUUM ANALYZE"); err != nil {
		p.Fatal(err)
	}
	var pruned int64
	p.measure(p.B, 1, func(int) error {
		for pruned < n {
			more, err := store.Prune(p.Context())
			if err != nil || more == 0 {
				return err
			}
			pruned += more
		}
		return nil
	})
	if pruned != n {
		p.Errorf("pruned %d of %d tasks", pruned, n)
	}
	if err := store.Close(p.Context()); err != nil {
		p.Fatal(err)
	}
}

func pruneTasks(n int) []stint.Task { return benchTasks("prune", n) }

// pruneChords is n tasks, for each 300 of which one waits.
func pruneChords(n int) []stint.Task {
	const members = 300
	tasks := benchTasks("member", n)
	for from := 0; from < n; from += members {
		callback := stint.Task{
			ID: stint.TaskID(fmt.Sprintf("callback-%d", from)), Action: "bench",
		}
		for _, task := range tasks[from:min(from+members, n)] {
			callback.After = append(callback.After, task.ID)
		}
		tasks = append(tasks, callback)
	}
	return tasks
}

// pruneChordsWithJoins is the same with a task in between that completes itself.
func pruneChordsWithJoins(n int) []stint.Task {
	tasks := pruneChords(n)
	for i := range tasks[n:] {
		callback := &tasks[n+i]
		join := stint.Task{
			ID: "join-" + callback.ID, Action: stint.Spontaneous, After: callback.After,
		}
		callback.After = []stint.TaskID{join.ID}
		tasks = append(tasks, join)
	}
	return tasks
}
