package stint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

// A cutVerb is a verb at work that changes something.
type cutVerb struct {
	name string
	opts stint.Options

	// given brings about the state before, and returns the call.
	given         cutGiven
	before, after string

	// again is what the call says if it is repeated after it took place, about the tasks named.
	again error
	named []stint.TaskID

	// at picks the request that takes effect: the commit of what the verb did, and not of whatever
	// else the store does when it likes.
	at pgcut.Match

	// many says that there are several requests in the transaction.
	many bool
}

// cutGiven brings about what a call needs, and returns the call.
type cutGiven func(*testing.T, *cutStore) func(context.Context) error

func cutInserts() []cutVerb {
	some := []stint.Task{{ID: "a", Action: "new"}, {ID: "b", Action: "new"}}
	many := numbered("t", 100)
	ids := make([]stint.TaskID, len(many))
	for i := range many {
		ids[i] = many[i].ID
	}
	return []cutVerb{{
		name: "InsertTasks",
		at:   pgcut.Commits("insert_tasks"),
		given: func(_ *testing.T, c *cutStore) func(context.Context) error {
			return func(ctx context.Context) error { return c.InsertTasks(ctx, some) }
		},
		after: "a ready as new, b ready as new",
		again: stint.ErrTaskExists, named: []stint.TaskID{"a", "b"},
	}, {
		name: "InsertTasks by COPY", many: true,
		at: pgcut.Commits("allocate_blocks"),
		given: func(_ *testing.T, c *cutStore) func(context.Context) error {
			return func(ctx context.Context) error { return c.InsertTasks(ctx, many) }
		},
		after: "100 tasks like t000000 ready",
		again: stint.ErrTaskExists, named: ids,
	}, {
		name: "InsertTasksFrom", many: true,
		at: pgcut.Commits("allocate_blocks"),
		given: func(_ *testing.T, c *cutStore) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := c.InsertTasksFrom(ctx, stream(many, nil))
				return err
			}
		},
		after: "100 tasks like t000000 ready",
		again: stint.ErrTaskExists, named: ids,
	}, {
		name: "ReplaceTasks", many: true,
		at: pgcut.Commits("withdraw_tasks"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
			return func(ctx context.Context) error { return c.ReplaceTasks(ctx, some) }
		},
		before: "a ready",
		after:  "a ready as new, b ready as new",
	}}
}

func cutEnsures() []cutVerb {
	some := []stint.Task{{ID: "a", Action: "new"}, {ID: "b", Action: "new"}}
	return []cutVerb{{
		name: "EnsureTasks", // a repetition leaves all out
		at:   pgcut.Commits("insert_separately"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
			return func(ctx context.Context) error { return errOf(c.EnsureTasks(ctx, some)) }
		},
		before: "a ready", after: "a ready, b ready as new",
	}, {
		name: "EnsureTasks of one",
		at:   pgcut.Commits("insert_separately"),
		given: func(_ *testing.T, c *cutStore) func(context.Context) error {
			return func(ctx context.Context) error { return errOf(c.EnsureTasks(ctx, some[:1])) }
		},
		after: "a ready as new",
	}, {
		name: "EnsureTasks by COPY", many: true,
		at: pgcut.Commits("allocate_blocks"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
			linked := []stint.Task{after("a"), after("b", "a")}
			return func(ctx context.Context) error { return errOf(c.EnsureTasks(ctx, linked)) }
		},
		before: "a ready", after: "a ready, b blocked",
	}}
}

func cutDebounces() []cutVerb {
	debounce := func(ctx context.Context, store *stint.Store) error {
		return store.Debounce(ctx, stint.Task{ID: "a", Action: "new"}, time.Hour, time.Hour)
	}
	call := func(ctx context.Context, c *cutStore) error { return debounce(ctx, c.Store) }
	given := func(first func(*testing.T, *cutStore)) cutGiven {
		return func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			first(t, c)
			return func(ctx context.Context) error { return call(ctx, c) }
		}
	}
	owned := owning(func(ctx context.Context, c *cutStore, _ []stint.OwnedTask) error {
		return call(ctx, c)
	}, "a")
	return []cutVerb{{
		name: "Debounce", many: true, at: pgcut.Commits("insert_debounced"),
		given: given(func(*testing.T, *cutStore) {}),
		after: "a scheduled as new",
	}, {
		name: "Debounce of a task that has not started", many: true,
		at: pgcut.Commits("withdraw_tasks"),
		given: given(func(t *testing.T, c *cutStore) {
			t.Helper()
			insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
		}),
		before: "a ready", after: "a ready as new",
	}, {
		name: "Debounce of a task in progress", many: true,
		at: pgcut.Commits("insert_debounced"), given: owned,
		before: "a in-progress try 1", after: "a in-progress try 1, a+ blocked as new",
	}, {
		name: "Debounce in the caller's transaction", many: true,
		at: pgcut.Commits("insert_debounced"),
		given: owning(func(ctx context.Context, c *cutStore, _ []stint.OwnedTask) error {
			return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx,
					"INSERT INTO mine SELECT 'a' WHERE NOT EXISTS (SELECT FROM mine)")
				if err != nil {
					return err
				}
				return debounce(ctx, c.WithTx(tx))
			})
		}, "a"),
		before: "a in-progress try 1", after: "a in-progress try 1, a+ blocked as new, 1 of mine",
	}}
}

// owning is what is given to an owner of the tasks with these IDs.
func owning(
	call func(context.Context, *cutStore, []stint.OwnedTask) error, ids ...stint.TaskID,
) cutGiven {
	return func(t *testing.T, c *cutStore) func(context.Context) error {
		t.Helper()
		for _, id := range ids {
			insert(t, c.truth, stint.Task{ID: id, Action: "act"})
		}
		owned := own(t, c.truth, len(ids))
		return func(ctx context.Context) error { return call(ctx, c, owned) }
	}
}

// late is given as the other, to an owner whose lease has expired since.
func late(given cutGiven) cutGiven {
	return func(t *testing.T, c *cutStore) func(context.Context) error {
		t.Helper()
		call := given(t, c)
		expireLeases(t, c.truthPool)
		maintain(t, c.truth)
		return call
	}
}

func returnOne(
	code stint.StatusCode,
) func(context.Context, *cutStore, []stint.OwnedTask) error {
	return func(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
		return c.ReturnTask(ctx, owned[0].ID, owned[0].Token, "said", code)
	}
}

func cutReturns() []cutVerb {
	verbs := []cutVerb{{
		name:  "ReturnTask completed",
		given: owning(returnOne(stint.StatusCompleted), "a"),
		after: `a completed try 1 "said"`,
	}, {
		name:  "ReturnTask aborted",
		given: owning(returnOne(stint.StatusAborted), "a"),
		after: `a aborted/returned try 1 "said"`,
	}, {
		name:  "ReturnTask pending",
		given: owning(returnOne(stint.StatusPending), "a"),
		after: `a ready try 1 "said"`,
	}, {
		name: "ReturnTask pending after the last try",
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			insert(t, c.truth, stint.Task{ID: "a", Action: "act", MaxTries: 1})
			owned := own(t, c.truth, 1)
			return func(ctx context.Context) error {
				return returnOne(stint.StatusPending)(ctx, c, owned)
			}
		},
		after: `a aborted/tries try 1 "said"`,
	}, {
		name:  "ReturnTask in the caller's transaction",
		given: owning(succeed, "a"), many: true,
		after: `a completed try 1 "said", b ready as new, 1 of mine`,
	}, {
		name: "finish_task", many: true, at: pgcut.Commits("finish_task"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			exec(t, c.truthPool, functions(t))
			return owning(finishOrReport, "a")(t, c)
		},
		after: `a completed try 1 "said", b ready as new, 1 of mine`,
	}, {
		name:   "ReturnTask of a late owner",
		given:  late(owning(returnOne(stint.StatusCompleted), "a")),
		before: "a ready try 1" + expiredOnce, at: pgcut.Commits("revive_tasks"),
		after: `a completed try 1 "said"`,
	}, {
		name:  "ReturnTasks",
		given: owning(returnFour, "a", "b", "c", "d"),
		before: "a in-progress try 1, b in-progress try 1, " +
			"c in-progress try 1, d in-progress try 1",
		after: "a completed try 1, b aborted/returned try 1, c scheduled try 1, d ready",
	}}
	for i := range verbs {
		verbs[i].again, verbs[i].named = stint.ErrAlreadyReturned, []stint.TaskID{"a"}
		if verbs[i].before == "" {
			verbs[i].before = "a in-progress try 1"
		}
		if verbs[i].at == nil {
			verbs[i].at = pgcut.Commits("return_tasks")
		}
	}
	return verbs
}

// returnFour returns four tasks in four ways, and gives the verdict that all of them share.
func returnFour(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
	returns := []stint.Return{
		{Code: stint.StatusCompleted, Result: []byte("result")},
		{Code: stint.StatusAborted},
		{Code: stint.StatusPending, RetryAfter: time.Hour},
		{Code: stint.StatusPending, Release: true},
	}
	for i := range returns {
		returns[i].ID, returns[i].Token = owned[i].ID, owned[i].Token
	}
	verdicts, err := c.ReturnTasks(ctx, returns)
	if err != nil {
		return err
	}
	for _, verdict := range verdicts {
		if errors.Is(verdict, stint.ErrAlreadyReturned) != (verdicts[0] != nil) {
			return fmt.Errorf("verdicts that differ: %v", verdicts)
		}
	}
	return verdicts[0]
}

func extend(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
	kept, err := c.ExtendTasksOwnership(ctx, "actor", owned, longLease)
	if err == nil && slices.Contains(kept, false) {
		err = fmt.Errorf("not all are kept: %t", kept)
	}
	return err
}

func setHalf(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
	return c.SetStatus(ctx, owned[0], "half", 0.5)
}

func takeStep(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
	return errOf(c.RecordStep(ctx, owned[0], "step", nil))
}

func cutOwnerVerbs() []cutVerb {
	return []cutVerb{{
		name:   "ExtendTasksOwnership",
		at:     pgcut.Commits("extend_leases"),
		given:  owning(extend, "a", "b"),
		before: "a in-progress try 1, b in-progress try 1",
		after:  "a in-progress try 1 long, b in-progress try 1 long",
	}, {
		name: "ExtendTasksOwnership of some",
		at:   pgcut.Commits("extend_leases"),
		given: owning(func(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
			return extend(ctx, c, owned[1:])
		}, "a", "b"),
		before: "a in-progress try 1, b in-progress try 1",
		after:  "a in-progress try 1, b in-progress try 1 long",
	}, {
		name:   "ExtendTasksOwnership of a late owner",
		given:  late(owning(extend, "a", "b")),
		before: "a ready try 1" + expiredOnce + ", b ready try 1" + expiredOnce,
		at:     pgcut.Commits("revive_tasks"),
		after: "a in-progress try 1 long" + expiredOnce +
			", b in-progress try 1 long" + expiredOnce,
	}, {
		name:   "SetStatus",
		at:     pgcut.Commits("set_status"),
		given:  owning(setHalf, "a"),
		before: "a in-progress try 1",
		after:  `a in-progress try 1 "half"`,
	}, {
		name:   "SetStatus of a late owner",
		given:  late(owning(setHalf, "a")),
		before: "a ready try 1" + expiredOnce, at: pgcut.Commits("revive_tasks"),
		after: `a in-progress try 1 "half"`,
	}, {
		name:   "RecordStep",
		at:     pgcut.Commits("record_step"),
		given:  owning(takeStep, "a"),
		before: "a in-progress try 1",
		after:  "a in-progress try 1, 1 steps",
	}}
}

// oneOfEach makes task c completed, d in progress, a ready and b scheduled.
func oneOfEach(t *testing.T, c *cutStore) {
	t.Helper()
	call := owning(func(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
		return c.truth.ReturnTask(ctx, "c", owned[0].Token, "", stint.StatusCompleted)
	}, "c", "d")(t, c)
	if err := call(t.Context()); err != nil {
		t.Fatalf("ReturnTask = %v", err)
	}
	insert(t, c.truth, stint.Task{ID: "a", Action: "act"},
		stint.Task{ID: "b", Action: "act", NotBefore: time.Now().Add(time.Hour)})
}

func cutOthers() []cutVerb {
	return []cutVerb{{
		name: "AbortTasks", many: true,
		at: pgcut.Commits("withdraw_tasks"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			oneOfEach(t, c)
			ids := []stint.TaskID{"a", "b", "c", "d"}
			return func(ctx context.Context) error { return errOf(c.AbortTasks(ctx, ids, "off")) }
		},
		before: "a ready, b scheduled, c completed try 1, d in-progress try 1",
		after: `a aborted/cancelled "off", b aborted/cancelled "off", c completed try 1, ` +
			`d aborted/cancelled try 1 "off"`,
	}, {
		name: "DeleteTasks", many: true,
		at: pgcut.Commits("withdraw_tasks"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			oneOfEach(t, c)
			ids := []stint.TaskID{"a", "b", "c"}
			return func(ctx context.Context) error { return errOf(c.DeleteTasks(ctx, ids)) }
		},
		before: "a ready, b scheduled, c completed try 1, d in-progress try 1",
		after:  "d in-progress try 1",
		again:  stint.ErrTaskNotFound, named: []stint.TaskID{"a", "b", "c"},
	}, {
		name: "ChangeTasks", many: true,
		at: pgcut.Commits("change_tasks"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			oneOfEach(t, c)
			to := stint.TaskChanges{StartNow: true, Priority: new(int16(1))}
			return func(ctx context.Context) error {
				return errOf(c.ChangeTasks(ctx, []stint.TaskID{"a", "b"}, to))
			}
		},
		before: "a ready, b scheduled, c completed try 1, d in-progress try 1",
		after:  "a ready, b ready, c completed try 1, d in-progress try 1",
	}, {
		name: "RetryTasks", many: true,
		at: pgcut.Commits("reopen_tasks"),
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			insert(t, c.truth, after("a"), after("b", "a"), anyway("c", "a"))
			fail(t, c.truth, "a")
			return func(ctx context.Context) error {
				return errOf(c.RetryTasks(ctx, []stint.TaskID{"a"}))
			}
		},
		before: `a aborted/returned try 1 "no luck", b aborted/dependency, c ready`,
		after:  "a ready, b blocked, c blocked",
	}}
}

func cutMaintenance() []cutVerb {
	return []cutVerb{{
		name: "Maintain",
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			oneOfEach(t, c)
			exec(t, c.truthPool, "UPDATE stint.scheduled SET not_before = statement_timestamp()")
			expireLeases(t, c.truthPool)
			return c.Maintain
		},
		before: "a ready, b scheduled, c completed try 1, d in-progress try 1",
		at:     pgcut.Commits("reclaim_leases"),
		after:  "a ready, b ready, c completed try 1, d ready try 1" + expiredOnce,
	}, {
		name: "Maintain ends", many: true,
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			insert(t, c.truth, stint.Task{ID: "e", Action: "no", Deadline: time.Now()},
				stint.Task{ID: "f", Action: "no", After: []stint.TaskID{"e"}})
			return c.Maintain
		},
		before: "e ready as no, f blocked as no",
		at:     pgcut.Commits("settle_tasks"),
		after:  "e aborted/expired as no, f aborted/dependency as no",
	}, {
		name: "Maintain prunes", many: true, opts: stint.Options{
			Retention: stint.Retention{Completed: time.Microsecond},
		},
		given: func(t *testing.T, c *cutStore) func(context.Context) error {
			t.Helper()
			oneOfEach(t, c)
			return c.Maintain
		},
		before: "a ready, b scheduled, c completed try 1, d in-progress try 1",
		at:     pgcut.Commits("prune_finished"),
		after:  "a ready, b scheduled, d in-progress try 1",
	}}
}
