package work

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

// A shape makes tasks that are inserted by one call. Their IDs begin with a prefix.
type shape struct {
	name   string
	weight int
	tasks  func(r *rand.Rand, prefix string) []stint.Task
}

func shapes() []shape {
	return []shape{
		{"single", 30, single},
		{"batch", 12, batch},
		{"chain", 8, chain},
		{"chord", 6, chord},
		{"network", 8, network},
		{"conditions", 8, conditions},
		{"any", 5, whenAny},
		{"ordered", 8, keysOf(orderedAction)},
		{"keyed", 6, keysOf(keyedAction)},
		{"fair", 6, keysOf(fairAction)},
		{"fairer", 4, keysOf(fairerAction)},
		{"limited", 6, many(limitedAction)},
		{"rated", 2, many(ratedAction)},
		{"budget", 3, costing(keysOf(budgetAction))},
		{"later", 5, later},
		{"fail fast", 4, failFast},
		{"external", 4, external},
		{"lost", 1, lost},
		{"limited chain", 4, underLimits(chain)},
		{"limited chord", 2, underLimits(chord)},
		{"limited network", 3, underLimits(network)},
		{"limited conditions", 2, underLimits(conditions)},
		{"limited fail fast", 2, underLimits(failFast)},
	}
}

// drawShape picks a shape by the weights.
func drawShape(r *rand.Rand) shape {
	all := shapes()
	sum := 0
	for _, s := range all {
		sum += s.weight
	}
	k := r.IntN(sum)
	for _, s := range all {
		if k < s.weight {
			return s
		}
		k -= s.weight
	}
	return all[0]
}

// task makes a task of an action that has no limits.
func task(r *rand.Rand, id string) stint.Task {
	t := stint.Task{ID: stint.TaskID(id), Action: plainAction, MaxTries: 3 + r.IntN(4)}
	switch r.IntN(12) {
	case 0, 1:
		t.Action = otherAction
	case 2:
		t.Action = slowAction
	case 3:
		t.Priority = int16(r.IntN(3)) //nolint:gosec // small
	case 4:
		t.MaxTries = 1
	case 5:
		t.Body = make([]byte, r.IntN(4000))
	case 6:
		t.Headers = map[string]string{"customer": "7"}
	case 7:
		t.PostResult = true
	}
	return t
}

func single(r *rand.Rand, prefix string) []stint.Task { return []stint.Task{task(r, prefix)} }

func batch(r *rand.Rand, prefix string) []stint.Task {
	const most = 60
	tasks := make([]stint.Task, 2+r.IntN(most))
	action := actions()[r.IntN(2)]
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("%s/%d", prefix, i)), Action: action}
	}
	return tasks
}

func many(action string) func(*rand.Rand, string) []stint.Task {
	return func(r *rand.Rand, prefix string) []stint.Task {
		tasks := make([]stint.Task, 1+r.IntN(10))
		for i := range tasks {
			tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("%s/%d", prefix, i)), Action: action}
		}
		return tasks
	}
}

// costing gives tasks costs.
func costing(
	tasks func(*rand.Rand, string) []stint.Task,
) func(*rand.Rand, string) []stint.Task {
	return func(r *rand.Rand, prefix string) []stint.Task {
		const most = 40
		made := tasks(r, prefix)
		for i := range made {
			made[i].Cost = r.IntN(most)
		}
		return made
	}
}

// spentOn is what a try has cost; nil: it does not say.
func spentOn(task *stint.OwnedTask) *int {
	if task.Action != budgetAction || task.Try%3 == 0 {
		return nil
	}
	const most = 60
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(task.ID))
	spent := int(hash.Sum32() % most)
	return &spent
}

// keysOf makes tasks with keys, of which there are few.
func keysOf(action string) func(*rand.Rand, string) []stint.Task {
	return func(r *rand.Rand, prefix string) []stint.Task {
		const keys = 12
		tasks := many(action)(r, prefix)
		for i := range tasks {
			tasks[i].Key = fmt.Sprintf("key %d", r.IntN(keys))
			tasks[i].MaxTries = 3
		}
		return tasks
	}
}

func chain(r *rand.Rand, prefix string) []stint.Task {
	tasks := make([]stint.Task, 2+r.IntN(6))
	for i := range tasks {
		tasks[i] = task(r, fmt.Sprintf("%s/%d", prefix, i))
		if i > 0 {
			tasks[i].After = []stint.TaskID{tasks[i-1].ID}
		}
	}
	return tasks
}

// chord makes a group and what comes after all of it.
func chord(r *rand.Rand, prefix string) []stint.Task {
	parts := make([]structures.Structure, 3+r.IntN(12))
	for i := range parts {
		parts[i] = structures.Task(task(r, fmt.Sprintf("%s/%d", prefix, i)))
	}
	last := task(r, prefix+"/last")
	if r.IntN(2) == 0 {
		last.OnAbort = stint.RunAnyway
	}
	plan, err := structures.Build(prefix, structures.Chord(structures.Task(last), parts...))
	if err != nil {
		return nil
	}
	return plan.Tasks
}

// network makes tasks each of which waits for some of those before it.
func network(r *rand.Rand, prefix string) []stint.Task {
	tasks := make([]stint.Task, 4+r.IntN(16))
	for i := range tasks {
		tasks[i] = task(r, fmt.Sprintf("%s/%d", prefix, i))
		if r.IntN(8) == 0 {
			tasks[i].Action, tasks[i].Body = stint.Spontaneous, nil
		}
		if r.IntN(3) == 0 {
			tasks[i].OnAbort = stint.RunAnyway
		}
		for j := range i {
			if r.IntN(i+2) < 2 {
				tasks[i].After = append(tasks[i].After, tasks[j].ID)
			}
		}
	}
	return tasks
}

func conditions(r *rand.Rand, prefix string) []stint.Task {
	ends := [][]stint.State{
		nil,
		{stint.StateAborted},
		{stint.StateSkipped},
		{stint.StateCompleted, stint.StateAborted, stint.StateSkipped},
		{stint.StateAborted, stint.StateSkipped},
	}
	tasks := make([]stint.Task, 3+r.IntN(6))
	for i := range tasks {
		tasks[i] = task(r, fmt.Sprintf("%s/%d", prefix, i))
		for j := range i {
			if r.IntN(i+1) > 1 {
				continue
			}
			when := stint.Condition{After: tasks[j].ID, States: ends[r.IntN(len(ends))]}
			if when.States == nil && r.IntN(3) == 0 {
				when.Results = []string{string(resultOf(tasks[j].ID)), "another"}
			}
			tasks[i].When = append(tasks[i].When, when)
		}
		if r.IntN(4) == 0 {
			tasks[i].OnAbort = stint.RunAnyway
		}
	}
	return tasks
}

// whenAny makes a task that starts with the first of several.
func whenAny(r *rand.Rand, prefix string) []stint.Task {
	tasks := make([]stint.Task, 3+r.IntN(3))
	last := len(tasks) - 1
	tasks[last] = task(r, prefix+"/any")
	for i := range last {
		tasks[i] = task(r, fmt.Sprintf("%s/%d", prefix, i))
		when := stint.Condition{After: tasks[i].ID}
		if r.IntN(3) == 0 {
			when.States = []stint.State{stint.StateAborted}
		}
		tasks[last].WhenAny = append(tasks[last].WhenAny, when)
	}
	return tasks
}

// underLimits gives the tasks of a network an action with limits and a key, or each its own. What
// waits for a task then waits for its key, too.
func underLimits(
	tasks func(*rand.Rand, string) []stint.Task,
) func(*rand.Rand, string) []stint.Task {
	limited := []string{
		orderedAction, limitedAction, keyedAction, fairAction, fairerAction, budgetAction,
	}
	return func(r *rand.Rand, prefix string) []stint.Task {
		made := tasks(r, prefix)
		of, several := r.IntN(len(limited)), r.IntN(2) == 0
		for i := range made {
			if made[i].Action == stint.Spontaneous {
				continue
			}
			if several {
				of = r.IntN(len(limited))
			}
			made[i].Action, made[i].Key = limited[of], prefix
			made[i].MaxTries = max(made[i].MaxTries, 3)
		}
		return made
	}
}

// later makes tasks that start a little later, or must have ended soon.
func later(r *rand.Rand, prefix string) []stint.Task {
	const most = 2000
	tasks := chain(r, prefix)
	for i := range tasks {
		d := time.Duration(r.IntN(most)) * time.Millisecond
		//nolint:forbidigo // the clock of the machine, which is that of the server unless it jumps
		at := time.Now().Add(d)
		switch r.IntN(3) {
		case 0:
			tasks[i].NotBefore = at
		case 1:
			tasks[i].Deadline = at
		}
	}
	return tasks
}

// failFast makes a network whose last task has the others aborted when it is.
func failFast(r *rand.Rand, prefix string) []stint.Task {
	tasks := network(r, prefix)
	tasks[len(tasks)-1].FailFast = true
	return tasks
}

// lost makes a task for those who lose tasks.
func lost(_ *rand.Rand, prefix string) []stint.Task {
	const tries = 20
	return []stint.Task{{ID: stint.TaskID(prefix), Action: lostAction, MaxTries: tries}}
}

// external makes a task that somebody answers, and what waits for it.
func external(r *rand.Rand, prefix string) []stint.Task {
	first := stint.Task{ID: stint.TaskID(prefix + "/asked"), Action: stint.External}
	next := task(r, prefix+"/next")
	next.After = []stint.TaskID{first.ID}
	return []stint.Task{first, next}
}
