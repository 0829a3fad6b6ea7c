package stint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// returnKinds are the ways to return a task.
func returnKinds() []stint.Return {
	return []stint.Return{
		{Code: stint.StatusCompleted},
		{Code: stint.StatusCompleted, Result: make([]byte, 2<<20)}, // in a transaction of its own
		{Code: stint.StatusAborted, Status: "why"},
		{Code: stint.StatusPending, RetryAfter: time.Hour},
		{Code: stint.StatusPending, RetryAfter: time.Hour, Release: true},
	}
}

// repeatsOf are what answers are lost, one after the other: all those of the first attempt, or also
// one of its repetition.
func repeatsOf() []int { return []int{1, 2} }

// A cycle whose answer is lost tells its caller what one call would have: that the returns were
// made, whether or not there was something to own, also where finished tasks are not kept.
// Proves G286.
func TestReturnAndOwnTasks_TellsNothingOfItsOwnRepetition(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	returns := returnKinds()
	numbers := make([]int, len(returns))
	for i := range numbers {
		numbers[i] = i
	}
	kinds := testrun.Pairs(numbers, fetchKinds())
	for _, c := range testrun.Few(testrun.Pairs(kinds, testrun.Pairs(repeatsOf(),
		testrun.Pairs([]int{0, 2}, []bool{false, true})))) {
		i, kind, losses := c.A.A, c.A.B, c.B.A
		ret, more, keepNone := returns[i], c.B.B.A, c.B.B.B
		t.Run(fmt.Sprintf("%d %s %s, %d lost, %d more, keep none %t", i, ret.Code,
			kind.statement, losses, more, keepNone), func(t *testing.T) {
			t.Parallel()
			var opts stint.Options
			if keepNone {
				opts.Retention = stint.Retention{
					Completed: stint.KeepNone, Aborted: stint.KeepNone,
				}
			}
			c := newCutStore(t, opts)
			insert(t, c.truth, stint.Task{ID: "mine", Action: "act", Key: "k"})
			kind.impose(t, c)
			exec(t, c.truthPool, "UPDATE stint.leases SET deadline = 'infinity'")
			returnCut(t, c, ret, losses, more)
		})
	}
}

// returnCut returns the task of the store in a cycle whose answers get lost.
func returnCut(t *testing.T, c *cutStore, ret stint.Return, losses, more int) {
	t.Helper()
	owned := ownAnew(t, c)
	insert(t, c.truth, withKey("k", "x", "y")[:more]...)
	ret.ID, ret.Token = owned.ID, owned.Token
	var trap *pgcut.Trap
	for range losses {
		trap = c.proxy.Cut(pgcut.AtReply, func(r pgcut.Request) bool {
			return pgcut.Executes("return_tasks")(r) || pgcut.Executes("return_final")(r) ||
				pgcut.Executes("return_large")(r)
		})
	}
	verdicts, next, err := c.ReturnAndOwnTasks(t.Context(), []stint.Return{ret, ret}, stint.Want{
		Actor: "actor", MaxTasks: 5, Actions: []string{"act"}, Lease: time.Hour,
	})
	wantErr(t, "ReturnAndOwnTasks", err, nil)
	if !trap.Sprung() {
		t.Error("not all answers were lost")
	}
	wantErr(t, "the verdict", verdicts[0], nil)
	wantErr(t, "the verdict on the same once more", verdicts[1], stint.ErrAlreadyReturned)
	for _, task := range next {
		if task.ID != "mine" && task.Try != 1 {
			t.Errorf("%s comes as try %d", task.ID, task.Try)
		}
	}
}

// ownAnew returns the task that kind.impose has owned.
func ownAnew(t *testing.T, c *cutStore) stint.OwnedTask {
	t.Helper()
	exec(t, c.truthPool, "UPDATE stint.leases SET deadline = statement_timestamp()")
	maintain(t, c.truth)
	return ownOne(t, c.Store)
}

// What somebody else did is told all the same, however the repetition meets it.
// Proves G286.
func TestReturnAndOwnTasks_TellsWhatOthersDidThoughItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	done := func(code stint.StatusCode) func(*testing.T, *cutStore, stint.OwnedTask) {
		return func(t *testing.T, c *cutStore, task stint.OwnedTask) {
			t.Helper()
			err := c.truth.ReturnTask(t.Context(), task.ID, task.Token, "", code)
			wantErr(t, "ReturnTask", err, nil)
		}
	}
	others := map[string]func(*testing.T, *cutStore, stint.OwnedTask){
		"returned otherwise": done(stint.StatusAborted),
		"given back":         done(stint.StatusPending),
		"aborted": func(t *testing.T, c *cutStore, task stint.OwnedTask) {
			t.Helper()
			wantErr(t, "AbortTasks", errOf(c.truth.AbortTasks(
				t.Context(), []stint.TaskID{task.ID}, "off")), nil)
		},
		"owned": func(t *testing.T, c *cutStore, _ stint.OwnedTask) {
			t.Helper()
			expireLeases(t, c.truthPool)
			maintain(t, c.truth)
			ownOne(t, c.truth)
		},
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			insert(t, c.truth, stint.Task{ID: "mine", Action: "act", MaxTries: 9})
			task := ownOne(t, c.Store)
			other(t, c, task)
			trap := c.proxy.Cut(pgcut.AtReply, pgcut.Executes("own_tasks"))
			verdicts, _, err := c.ReturnAndOwnTasks(t.Context(), []stint.Return{{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			}}, stint.Want{
				Actor: "actor", MaxTasks: 1, Actions: []string{"none"},
				Lease: time.Hour,
			})
			wantErr(t, "ReturnAndOwnTasks", err, nil)
			if !trap.Sprung() {
				t.Error("nothing was cut")
			}
			if verdicts[0] == nil || errors.Is(verdicts[0], stint.ErrAlreadyReturned) {
				t.Errorf("the verdict is %v", verdicts[0])
			}
		})
	}
}
