package stint_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// costing are tasks with a key, one for each cost: name/0, name/1 and so on.
func costing(name, key string, costs ...int) []stint.Task {
	tasks := make([]stint.Task, len(costs))
	for i, cost := range costs {
		tasks[i] = stint.Task{
			ID: stint.TaskID(fmt.Sprint(name, "/", i)), Action: "act", Key: key, Cost: cost,
		}
	}
	return tasks
}

// spend returns a task as completed that has cost so much.
func spend(tb testing.TB, store *stint.Store, task stint.OwnedTask, spent int) {
	tb.Helper()
	verdicts, err := store.ReturnTasks(tb.Context(), []stint.Return{{
		ID: task.ID, Token: task.Token, Code: stint.StatusCompleted, Spent: &spent,
	}})
	if err != nil || verdicts[0] != nil {
		tb.Fatalf("ReturnTasks = %v, %v", verdicts, err)
	}
}

// wantTokens checks how many tokens the bucket of the action has, but for those of a second.
func wantTokens(tb testing.TB, store *stint.Store, want float64) {
	tb.Helper()
	list, err := store.ListLimits(tb.Context(), "act")
	if err != nil || len(list) != 1 {
		tb.Fatalf("ListLimits = %v, %v", list, err)
	}
	if got := list[0].Tokens; math.Abs(got-want) > 1 {
		tb.Errorf("the bucket has %v tokens, want %v", got, want)
	}
}

// anHour is a budget of 100 an hour, all of which may be spent at once.
var anHour = stint.Rate{Tasks: 100, Per: time.Hour, Burst: 100}

// A task starts as long as there is a token, so a bucket owes at most what one task costs, and
// nothing starts until that has been paid, or what was not spent has come back.
// Proves G342.
func TestBudgets_CountWhatTasksCost(t *testing.T) {
	t.Parallel()
	store, _ := newLimitedStore(t, stint.Limits{Rate: anHour, ByCost: true})
	insert(t, store, costing("t", "", 60, 0, 60, 1, 5)...)
	first := wantFetch(t, store, 10, "t/0")
	wantFetch(t, store, 10, "t/1")
	wantTokens(t, store, 39)
	third := wantFetch(t, store, 10, "t/2")
	wantTokens(t, store, -21)
	wantFetch(t, store, 10)

	spend(t, store, first[0], 40) // 20 come back, and all are owed
	wantFetch(t, store, 10)
	wantTokens(t, store, -1)
	spend(t, store, third[0], 50)
	wantFetch(t, store, 10, "t/3")
	wantFetch(t, store, 10, "t/4")
	wantTokens(t, store, 3)
}

// A task that spends more than it costs takes that from those behind it.
// Proves G342.
func TestBudgets_SettleWhatWasSpent(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Rate: anHour, ByCost: true})
	insert(t, store, costing("t", "", 1, 1, 1)...)
	owned := wantFetch(t, store, 1, "t/0")
	spend(t, store, owned[0], 150)
	wantFetch(t, store, 1)
	wantTokens(t, store, -50)
	if err := store.ReturnTask(
		t.Context(), "t/0", owned[0].Token, "", stint.StatusCompleted,
	); err == nil {
		t.Error("a second return is accepted")
	}
	spent := 1000
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
		ID: "t/0", Token: owned[0].Token, Code: stint.StatusCompleted, Spent: &spent,
	}})
	if err != nil || verdicts[0] == nil {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
	wantFetch(t, store, 1)
	wantTokens(t, store, -50)
	exec(t, pool, `UPDATE stint.limits SET refilled_at = refilled_at - interval '31 min'`)
	wantFetch(t, store, 1, "t/1")
	wantTokens(t, store, 0.7)
}

// The budget of a key holds up its tasks alone. They come back when what it owes is paid, or what
// was not spent has come back.
// Proves G342.
func TestBudgets_OfKeys(t *testing.T) {
	t.Parallel()
	store, pool := newLimitedStore(t, stint.Limits{RatePerKey: anHour, ByCost: true})
	insert(t, store, costing("a", "a", 300, 1, 1)...)
	insert(t, store, costing("b", "b", 60, 60, 60)...)
	a := wantFetch(t, store, 10, "a/0")
	b := wantFetch(t, store, 10, "b/0")
	wantFetch(t, store, 10, "b/1")
	wantFetch(t, store, 10)
	explained, err := store.Explain(t.Context(), "a/1")
	if err != nil {
		t.Fatal(err)
	}
	if left := explained.Limits.KeyTokens; math.Abs(left+200) > 1 {
		t.Errorf("a has %v tokens, want -200", left)
	}
	wantText(t, explained.String(), ", and owes 199\n")
	until := explained.Limits.KeyNextAt.Sub(explained.Now)
	if math.Abs(until.Minutes()-201*60./100) > 1 {
		t.Errorf("a has a token in %v, want two hours and a minute", until)
	}

	spend(t, store, b[0], 30)
	wantFetch(t, store, 10, "b/2")
	spend(t, store, a[0], 250)
	wantFetch(t, store, 10)
	exec(t, pool, `UPDATE stint.key_rates SET full_at = full_at - interval '91 min',
		wake_at = wake_at - interval '121 min'`)
	wantFetch(t, store, 10, "a/1")
	wantFetch(t, store, 10)
}

// Explain says what is left of the budgets of a task that is ready, and what they owe.
// Proves G342.
func TestBudgets_SayWhatIsLeft(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limits := stint.Limits{Rate: anHour, RatePerKey: stint.Rate{
		Tasks: 50, Per: time.Hour, Burst: 50,
	}, ByCost: true}
	store, _ := newLimitedStore(t, limits)
	insert(t, store, costing("a", "a", 30, 80, 1)...)
	insert(t, store, costing("b", "b", 1)...)
	insert(t, store, costing("none", "", 1)...)
	want := func(id stint.TaskID, tokens, keyTokens float64, said ...string) {
		t.Helper()
		why := whyOf(t, store, id)
		wantText(t, why.String(), said...)
		// Some have come meanwhile.
		if l := why.Limits; math.Abs(l.Tokens-tokens) > 1 || math.Abs(l.KeyTokens-keyTokens) > 1 {
			t.Errorf("%s has %v tokens, and %v of its key; want %v, %v", id, l.Tokens,
				l.KeyTokens, tokens, keyTokens)
		}
	}
	const waits = " is ready: it waits for an actor"
	want("a/0", 100, 50, waits+"\nleft of the budget of \"act\": 100\n"+
		"left of the budget of key \"a\": 50\n")
	wantFetch(t, store, 1, "a/0")
	want("a/1", 70, 20, waits, "\"act\": 70\n", "key \"a\": 20\n")
	want("b/0", 70, 50, "key \"b\": 50\n")
	want("none/0", 70, 0, waits+"\nleft of the budget of \"act\": 70\ntries left")
	wantFetch(t, store, 1, "a/1")
	want("a/2", -10, -60, "budget of \"act\" is spent until 2", ", and owes 9\n", ", and owes 59\n")
	limits.ByCost = false
	setLimits(t, store, limits)
	want("b/0", 0, 50, "the next token of \"act\" comes at 2")
}

// A store that knows limits of an action counts costs as soon as another one says so.
// Proves G342.
func TestBudgets_AreNewToAStore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limits := stint.Limits{Rate: anHour}
	store, pool := newLimitedStore(t, limits)
	insert(t, store, costing("t", "", 99, 9, 9, 9)...)
	wantFetch(t, store, 1, "t/0")
	wantTokens(t, store, 99)
	limits.ByCost = true
	wantErr(t, "SetLimits",
		openStore(t, pool, stint.Options{}).SetLimits(t.Context(), "act", limits), nil)
	wantFetch(t, store, 2, "t/1")
	wantTokens(t, store, 90)
	limits.ByCost = false
	wantErr(t, "SetLimits",
		openStore(t, pool, stint.Options{}).SetLimits(t.Context(), "act", limits), nil)
	wantFetch(t, store, 2, "t/2", "t/3")
	wantTokens(t, store, 88)
}

// Keys get equal shares of what tasks cost, not of their number, in proportion to their weights.
// Proves G342.
func TestBudgets_ShareByCost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, group := range []string{"", "customers"} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			store, _ := newLimitedStore(t,
				stint.Limits{Fair: true, FairGroup: group, ByCost: true})
			wantErr(t, "SetWeights",
				store.SetWeights(t.Context(), "act", map[string]int{"c": 2}), nil)
			costs := func(cost int) []int {
				all := make([]int, 200)
				for i := range all {
					all[i] = cost
				}
				return all
			}
			insert(t, store, costing("a", "a", costs(10)...)...)
			insert(t, store, costing("b", "b", costs(1)...)...)
			insert(t, store, costing("c", "c", costs(5)...)...)
			shares := map[string]int{}
			for range 150 {
				for _, task := range own(t, store, 1) {
					shares[task.Key]++
				}
			}
			// 10 a = 100, 100 b = 100, 40 c = 200.
			for key, want := range map[string]int{"a": 10, "b": 100, "c": 40} {
				if got := shares[key]; got < want-3 || got > want+3 {
					t.Errorf("%s got %d of 150, want %d", key, got, want)
				}
			}
		})
	}
}

// Whatever answer is lost, a task is charged once, and what it spent is settled once.
// Proves G342.
func TestBudgets_AreExactWhenAnswersAreLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	statements := []string{
		"charge_costs", "claimed_tasks", "note_spent", "return_tasks", "settle_spent",
	}
	for _, statement := range testrun.Some(statements) {
		for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
			t.Run(statement+" "+at.String(), func(t *testing.T) {
				t.Parallel()
				c := newCutStore(t, stint.Options{})
				wantErr(t, "SetLimits", c.truth.SetLimits(t.Context(), "act",
					stint.Limits{Rate: anHour, ByCost: true}), nil)
				own(t, c.Store, 1) // nothing, but now it knows the limits
				insert(t, c.truth, costing("t", "", 30)...)
				trap := c.proxy.Cut(at, pgcut.Executes(statement))
				var owned []stint.OwnedTask
				eventually(t, soon, "the task is owned", func() bool {
					owned, _ = c.OwnTasks(t.Context(), "actor", 5, []string{"act"}, time.Hour)
					return len(owned) == 1
				})
				spent := 50
				back := stint.Return{
					ID: "t/0", Token: owned[0].Token, Code: stint.StatusCompleted, Spent: &spent,
				}
				eventually(t, soon, "the task is returned", func() bool {
					verdicts, err := c.ReturnTasks(t.Context(), []stint.Return{back})
					return err == nil &&
						(verdicts[0] == nil || errors.Is(verdicts[0], stint.ErrAlreadyReturned))
				})
				insert(t, c.truth, costing("u", "", 5)...)
				eventually(t, soon, "the next task is owned", func() bool {
					owned, _ = c.OwnTasks(t.Context(), "actor", 5, []string{"act"}, time.Hour)
					return len(owned) == 1
				})
				if !trap.Sprung() {
					t.Error("nothing was cut")
				}
				wantTokens(t, c.truth, 45)
			})
		}
	}
}

// A fetch whose answer is lost is charged once, also if two attempts of it arrive.
// Proves G342.
func TestBudgets_ChargeALostFetchOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"own_gated":   {Rate: anHour, ByCost: true},
		"own_limited": {Rate: anHour, RatePerKey: anHour, ByCost: true},
	} {
		ways := lostFetches(name)
		for _, way := range testrun.Some(slices.Sorted(maps.Keys(ways))) {
			lose := ways[way]
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				c := newCutStore(t, stint.Options{})
				fetchKind{limits: limits}.impose(t, c)
				insert(t, c.truth, costing("t", "k", 30)...)
				var owned []stint.OwnedTask
				wantErr(t, "OwnTasks", lose(t, c, func() (err error) {
					owned, err = c.OwnTasks(t.Context(), "actor", 2, []string{"act"}, time.Hour)
					return err
				}), nil)
				if got := idsOf(owned); !slices.Equal(got, []stint.TaskID{"t/0"}) {
					t.Errorf("OwnTasks gave %v", got)
				}
				wantTokens(t, c.truth, 70)
			})
		}
	}
}

// A call of a service that is repeated under its claim gets what it got, and is charged once.
// Proves G342.
func TestBudgets_ChargeAClaimOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, perKey := range []stint.Rate{{}, anHour} {
		store, _ := newLimitedStore(t,
			stint.Limits{Rate: anHour, RatePerKey: perKey, ByCost: true})
		own(t, store, 1) // nothing, but now it knows the limits
		insert(t, store, costing("t", "k", 30, 1)...)
		for range 3 {
			owned, err := store.Remote().ClaimTasks(
				t.Context(), stint.Claim{Number: 7}, "actor", 1, []string{"act"}, time.Hour)
			if got := idsOf(owned); err != nil || !slices.Equal(got, []stint.TaskID{"t/0"}) {
				t.Errorf("ClaimTasks = %v, %v", got, err)
			}
		}
		wantTokens(t, store, 70)
	}
}

// What somebody says who does not own the task any more does not count.
// Proves G342.
func TestBudgets_LateOwnersSpendNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Rate: anHour, ByCost: true})
	insert(t, store, costing("t", "", 10)...)
	first := wantFetch(t, store, 1, "t/0")[0]
	wantErr(t, "ReturnTask", store.ReturnTask(
		t.Context(), "t/0", first.Token, "again", stint.StatusPending), nil)
	wantFetch(t, store, 1, "t/0")
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
		ID: "t/0", Token: first.Token, Code: stint.StatusCompleted, Spent: new(1000),
	}})
	wantErr(t, "ReturnTasks", err, nil)
	wantErr(t, "the late return", verdicts[0], stint.ErrInvalidToken)
	wantFetch(t, store, 1) // settles
	wantTokens(t, store, 80)
}

// What a return says was spent is undone with the transaction that it is in.
// Proves G342.
func TestBudgets_ARolledBackReturnSpendsNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Rate: anHour, ByCost: true})
	insert(t, store, costing("t", "", 30, 1)...)
	owned := wantFetch(t, store, 1, "t/0")
	undo := errors.New("undo")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		spend(t, store.WithTx(tx), owned[0], 1000)
		return undo
	})
	wantErr(t, "the transaction", err, undo)
	wantFetch(t, store, 1, "t/1")
	wantTokens(t, store, 69)
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		spend(t, store.WithTx(tx), owned[0], 50)
		return nil
	})
	wantErr(t, "the transaction", err, nil)
	wantFetch(t, store, 1)
	wantTokens(t, store, 49)
}

// A fetch is charged also where its statements have to be sent again, since somebody else's
// operators fit them better until the path is set.
// Proves G154, G342.
func TestBudgets_ChargeWhereStatementsAreSentAgain(t *testing.T) {
	t.Parallel()
	truth, clean := newLimitedStore(t, stint.Limits{Rate: anHour, ByCost: true})
	exec(t, clean, "CREATE SCHEMA evil")
	exec(t, clean, "CREATE FUNCTION evil.point(bigint, bigint) RETURNS point LANGUAGE sql "+
		"AS 'SELECT pg_catalog.point(1, 1)'") // which is never a boolean
	exec(t, clean, "CREATE OPERATOR evil.= "+
		"(FUNCTION = evil.point, LEFTARG = bigint, RIGHTARG = bigint)")
	insert(t, truth, costing("t", "", 30)...)
	store := openStore(t, poolOf(t, clean, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["search_path"] = "evil, pg_catalog"
	}), stint.Options{Maintenance: stint.MaintainNever})
	wantFetch(t, store, 1, "t/0")
	wantTokens(t, truth, 70)
}

// The expiry of a last try ends the task, and its owner may still say what the try has spent.
// Proves G342.
func TestBudgets_SettleALateReturnOfTheLastTry(t *testing.T) {
	t.Parallel()
	store, pool := newLimitedStore(t, stint.Limits{Rate: anHour, ByCost: true})
	tasks := costing("t", "", 10, 10, 1)
	tasks[0].MaxTries, tasks[1].MaxTries = 1, 1
	insert(t, store, tasks...)
	owned := append(wantFetch(t, store, 1, "t/0"), wantFetch(t, store, 1, "t/1")...)
	expireLeases(t, pool)
	maintain(t, store)
	spent := 25
	for range 2 {
		verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{
			{ID: "t/0", Token: owned[0].Token, Code: stint.StatusPending, Spent: &spent},
			{ID: "t/1", Token: owned[1].Token, Code: stint.StatusPending},
		})
		for _, verdict := range verdicts {
			if verdict != nil && !errors.Is(verdict, stint.ErrAlreadyReturned) {
				t.Errorf("ReturnTasks = %v", verdict)
			}
		}
		wantErr(t, "ReturnTasks", err, nil)
	}
	wantFetch(t, store, 1, "t/2")
	wantTokens(t, store, 64)
}

// What was spent is settled also if the task was pruned or deleted before.
// Proves G342.
func TestBudgets_SettleTasksThatAreGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Rate: anHour, RatePerKey: anHour, ByCost: true})
	insert(t, store, costing("t", "k", 10, 10)...)
	insert(t, store, costing("last", "k", 1)...)
	pruned := wantFetch(t, store, 1, "t/0")
	deleted := wantFetch(t, store, 1, "t/1")
	spend(t, store, deleted[0], 25)
	_, err := store.DeleteTasks(t.Context(), []stint.TaskID{"t/1"})
	wantErr(t, "DeleteTasks", err, nil)
	spend(t, store, pruned[0], 5)
	pruner := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention:   stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepNone},
	})
	if n, err := pruner.Prune(t.Context()); n != 1 || err != nil {
		t.Fatalf("Prune = %d, %v, want the task", n, err)
	}
	wantFetch(t, store, 1, "last/0")
	wantTokens(t, store, 69)
	insert(t, store, costing("next", "k", 1)...)
	if left := whyOf(t, store, "next/0").Limits.KeyTokens; math.Abs(left-69) > 1 {
		t.Errorf("the key has %v tokens, want 69", left)
	}
}
