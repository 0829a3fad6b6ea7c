package stint_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// conditionedNetwork is a random network of n tasks, each of which waits for some before it.
func conditionedNetwork(random *rand.Rand, name string, n int) []stint.Task {
	id := func(i int) stint.TaskID { return stint.TaskID(fmt.Sprintf("%s-%03d", name, i)) }
	ends := []stint.State{isCompleted, isAborted, isSkipped}
	tasks := make([]stint.Task, n)
	for i := range tasks {
		task := stint.Task{ID: id(i), Action: "act", MaxTries: 1 + random.IntN(2)}
		if random.IntN(5) == 0 {
			task.Action = stint.Spontaneous
		}
		if random.IntN(4) == 0 {
			task.OnAbort = stint.RunAnyway
		}
		anyOf := random.IntN(3) == 0
		var waits []int
		for range min(i, random.IntN(5)) {
			waits = append(waits, max(0, i-1-random.IntN(12)))
		}
		slices.Sort(waits)
		for _, before := range slices.Compact(waits) {
			condition := stint.Condition{After: id(before)}
			for _, state := range ends {
				if random.IntN(2) == 0 {
					condition.States = append(condition.States, state)
				}
			}
			completes := len(condition.States) == 0 || condition.States[0] == isCompleted
			if completes && random.IntN(3) == 0 {
				condition.Results = []string{"x"}
			}
			switch {
			case anyOf:
				task.WhenAny = append(task.WhenAny, condition)
			case random.IntN(2) == 0:
				task.When = append(task.When, condition)
			default:
				task.After = append(task.After, condition.After)
			}
		}
		tasks[i] = task
	}
	return tasks
}

// performAtRandom performs tasks until there has been none for a while, and aborts some that wait.
func performAtRandom(t *testing.T, store *stint.Store, random *rand.Rand, all []stint.Task) error {
	t.Helper()
	for idle := 0; idle < 3; {
		owned, err := store.OwnTasks(t.Context(), "actor", 1+random.IntN(6), []string{"act"},
			time.Hour)
		if err != nil {
			return err
		}
		if idle++; len(owned) > 0 {
			idle = 0
		}
		var returns []stint.Return
		for _, task := range owned {
			given := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
			switch random.IntN(6) {
			case 0:
				given.Code = stint.StatusAborted
			case 1:
				given.Code = stint.StatusPending
			case 2, 3:
				given.Result = []byte("x")
			}
			returns = append(returns, given)
		}
		refusals, err := store.ReturnTasks(t.Context(), returns)
		for _, refusal := range refusals {
			if !errors.Is(refusal, stint.ErrInvalidToken) { // somebody has aborted it
				err = errors.Join(err, refusal)
			}
		}
		if err != nil {
			return err
		}
		if random.IntN(8) == 0 {
			one := all[random.IntN(len(all))].ID
			if _, err := store.AbortTasks(t.Context(), []stint.TaskID{one}, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// Whatever ends at once, each task ends as its predecessors say, and none is left waiting.
// Proves R23.
func TestConditions_HoldWhateverEndsAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, seed := range testrun.Some([]uint64{0, 1, 2, 3}) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			random := rand.New(rand.NewPCG(seed, 1))
			var all []stint.Task
			for i := range 12 {
				all = append(all, conditionedNetwork(random, fmt.Sprint(i), 60)...)
			}
			insert(t, store, all...)
			var group sync.WaitGroup
			errs := make(chan error, 8)
			for worker := range uint64(8) {
				group.Go(func() {
					errs <- performAtRandom(t, store, rand.New(rand.NewPCG(seed, worker)), all)
				})
			}
			group.Wait()
			for range cap(errs) {
				wantErr(t, "the worker", <-errs, nil)
			}
			wantErr(t, "the last worker", performAtRandom(t, store, random, all), nil)
			infos, err := store.GetTasks(t.Context(), named(all))
			wantErr(t, "GetTasks", err, nil)
			of := map[stint.TaskID]stint.TaskInfo{}
			for _, info := range infos {
				of[info.ID] = info
			}
			for i := range all {
				checkEnd(t, &all[i], of)
			}
		})
	}
}

// checkEnd checks the end of a task against those of its predecessors.
func checkEnd(t *testing.T, task *stint.Task, of map[stint.TaskID]stint.TaskInfo) {
	t.Helper()
	met, unmet, falls := 0, 0, 0
	count := func(condition stint.Condition, plain bool) {
		before := of[condition.After]
		states := condition.States
		if len(states) == 0 {
			states = []stint.State{isCompleted}
		}
		if plain && task.OnAbort == stint.RunAnyway {
			states = []stint.State{isCompleted, isAborted, isSkipped}
		}
		isMet := slices.Contains(states, before.State) &&
			(before.State != isCompleted || len(condition.Results) == 0 ||
				slices.Contains(condition.Results, string(before.Result)))
		switch {
		case isMet:
			met++
		case before.State == isAborted && task.OnAbort == stint.AbortToo:
			falls++
		case before.State == isCompleted, before.State == isAborted, before.State == isSkipped:
			unmet++
		}
	}
	for _, id := range task.After {
		count(stint.Condition{After: id}, true)
	}
	for _, condition := range slices.Concat(task.When, task.WhenAny) {
		count(condition, false)
	}
	all, got := len(task.After)+len(task.When)+len(task.WhenAny), of[task.ID]
	runs := met == all
	if len(task.WhenAny) > 0 {
		runs = met > 0
	}
	ok := false
	switch cause := got.AbortCause; {
	case got.State == isSkipped:
		ok = !runs && unmet > 0 && (len(task.WhenAny) == 0 || unmet == all)
	case cause == stint.CauseDependency:
		ok = !runs && falls > 0 && (len(task.WhenAny) == 0 || falls+unmet == all)
	case cause == stint.CauseCancelled:
		ok = true
	case got.State == isCompleted, got.State == isAborted:
		ok = runs
	}
	if !ok {
		t.Errorf("%q is %s %s: of %d conditions, %d are met, %d are not, %d fell; any of: %t",
			task.ID, got.State, got.AbortCause, all, met, unmet, falls, len(task.WhenAny) > 0)
	}
}
