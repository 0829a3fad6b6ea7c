package stint_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// groupActions are those of the group of these tests.
func groupActions() []string { return []string{"mail", "render", "sync"} }

// newGroupStore opens a store that nothing but its own calls maintains, with a group of three
// actions.
func newGroupStore(t *testing.T) (*stint.Store, *pgxpool.Pool) {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true,
	})
	recheckNever(store)
	for _, action := range groupActions() {
		setGroup(t, store, action, "tenants")
	}
	return store, pool
}

func setGroup(t *testing.T, store *stint.Store, action, group string) {
	t.Helper()
	err := store.SetLimits(t.Context(), action, stint.Limits{Fair: true, FairGroup: group})
	wantErr(t, "SetLimits", err, nil)
}

// tasksOf are n ready tasks of an action with a key.
func tasksOf(action, key string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{
			ID:     stint.TaskID(fmt.Sprintf("%s/%s/%d", action, key, rand.Int64())),
			Action: action, Key: key,
		}
	}
	return tasks
}

// ownOf owns tasks of some actions.
func ownOf(t *testing.T, store *stint.Store, n int, actions ...string) []stint.OwnedTask {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "actor", n, actions, time.Minute)
	wantErr(t, "OwnTasks", err, nil)
	return owned
}

// A tenant with tasks of three actions gets no more than one with tasks of one, if workers own
// tasks of all three.
// Proves G260.
func TestFairGroup_ATenantGetsOneShareOfSeveralActions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newGroupStore(t)
	for _, action := range groupActions() {
		insert(t, store, tasksOf(action, "a", 400)...)
	}
	insert(t, store, tasksOf("sync", "b", 400)...)
	got, ofA := map[string]int{}, map[string]int{}
	for range 20 {
		for _, task := range ownOf(t, store, 30, groupActions()...) {
			got[task.Key]++
			if task.Key == "a" {
				ofA[task.Action]++
			}
		}
	}
	if got["a"]+got["b"] != 600 || max(got["a"], got["b"])-min(got["a"], got["b"]) > 32 {
		t.Errorf("the tenants get %v of 600, want the same to within a turn", got)
	}
	t.Log(got, ofA)
}

// Whatever the weights, the actions in which keys have tasks, the actions that are asked for, the
// sizes of fetches, how many tasks are given back and by how many processes: keys that always
// have tasks are at no moment further apart than two turns.
// Proves G260.
func TestFairGroup_SharesAreWithinTwoTurnsOfTheWeights(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const turn, turns, workers = 32, 4, 12
	for round := range testrun.Rounds(8) {
		first, pool := newGroupStore(t)
		stores := []*stint.Store{first}
		for range 2 {
			other := openStore(t, pool, stint.Options{
				Maintenance: stint.MaintainNever, PollOnly: true,
			})
			stores = append(stores, other)
		}
		group := newWeighedGroup(t, first, turn*turns*3)
		others := make(chan []stint.OwnedTask)
		for i := range workers {
			go func() { others <- ownSomeOf(t, stores[i%len(stores)], group.some()) }()
		}
		for range workers {
			group.note(<-others)
		}
		for group.handed < turn*turns*group.total {
			if spread := group.spread(); spread > 2*turn {
				t.Fatalf("in round %d, with weights %v, shares are %v apart: %v", round,
					group.weights, spread, group.shares)
			}
			owned := ownSomeOf(t, stores[rand.IntN(len(stores))], group.some())
			if len(owned) == 0 {
				t.Fatalf("in round %d, nothing was fetched", round)
			}
			group.note(owned)
		}
	}
}

// A weighedGroup knows the shares of keys, all of which have tasks of the action sync, and some of
// others.
type weighedGroup struct {
	weights map[string]map[string]int // by action and key
	shares  map[string]float64
	handed  int // tasks
	total   int // the weights of sync
}

func newWeighedGroup(t *testing.T, store *stint.Store, each int) *weighedGroup {
	t.Helper()
	g := &weighedGroup{weights: map[string]map[string]int{}, shares: map[string]float64{}}
	var tasks []stint.Task
	keys := 2 + rand.IntN(5)
	for _, action := range groupActions() {
		g.weights[action] = map[string]int{}
		for key := range keys {
			key, weight := fmt.Sprint("k", key), 1+rand.IntN(4)
			g.weights[action][key], g.shares[key] = weight, 0
			if action == "sync" {
				g.total += weight
			}
			if action == "sync" || rand.IntN(2) == 0 {
				tasks = append(tasks, tasksOf(action, key, each*weight)...)
			}
		}
		err := store.SetWeights(t.Context(), action, g.weights[action])
		wantErr(t, "SetWeights", err, nil)
	}
	rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	insert(t, store, tasks...)
	return g
}

// some are actions with sync among them, of which all keys have tasks.
func (g *weighedGroup) some() []string {
	return append([]string{"sync"}, groupActions()[:rand.IntN(3)]...)
}

func (g *weighedGroup) note(owned []stint.OwnedTask) {
	g.handed += len(owned)
	for _, task := range owned {
		g.shares[task.Key] += 1 / float64(g.weights[task.Action][task.Key])
	}
}

func (g *weighedGroup) spread() float64 {
	shares := slices.Sorted(maps.Values(g.shares))
	return shares[len(shares)-1] - shares[0]
}

// ownSomeOf owns some tasks of actions, and gives some of them back, perhaps.
func ownSomeOf(t *testing.T, store *stint.Store, actions []string) []stint.OwnedTask {
	t.Helper()
	owned := ownOf(t, store, 1+rand.IntN(32), actions...)
	if rand.IntN(4) == 0 {
		for _, task := range owned[:rand.IntN(len(owned)+1)] {
			err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusPending)
			wantErr(t, "ReturnTask", err, nil)
		}
	}
	return owned
}

// What a key got of one action counts in a fetch of another one.
// Proves G261.
func TestFairGroup_WhatAKeyGotOfOneActionCountsInTheOthers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newGroupStore(t)
	for _, key := range []string{"a", "b"} {
		insert(t, store, tasksOf("sync", key, 400)...)
	}
	insert(t, store, tasksOf("mail", "a", 400)...)
	ownOf(t, store, 1, "sync") // both wait for their turns
	for range 5 {
		ownOf(t, store, 32, "mail")
	}
	got := map[string]int{}
	for range 10 {
		for key, n := range byKey(ownOf(t, store, 32, "sync")) {
			got[key] += n
		}
	}
	if diff := got["b"] - got["a"] - 160; diff < -32 || diff > 32 {
		t.Errorf("of sync, the keys get %v, want 160 more of b, which got none of mail", got)
	}
}

// A key that begins with another action does not begin anew.
// Proves G261.
func TestFairGroup_AKeyGoesOnWhereItIsInOtherActions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newGroupStore(t)
	insert(t, store, tasksOf("sync", "a", 600)...)
	insert(t, store, tasksOf("mail", "b", 600)...)
	got := map[string]int{}
	for range 200 { // a task at a time, which gets a turn of its own
		insert(t, store, tasksOf("render", "a", 1)...)
		for key, n := range byKey(ownOf(t, store, 1, groupActions()...)) {
			got[key] += n
		}
	}
	if got["b"] < 100-32 || got["a"] < 100-32 {
		t.Errorf("the keys get %v of 200, want as many each", got)
	}
}

// Of a key, the tasks of all actions are fetched by priority and then by age.
// Proves G262.
func TestFairGroup_OfAKeyTheOldestTaskComesFirst(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newGroupStore(t)
	var want []stint.TaskID
	for i := range 30 {
		task := tasksOf(groupActions()[i%3], "a", 1)
		want = append(want, task[0].ID)
		insert(t, store, task...)
	}
	urgent := tasksOf("sync", "a", 1)
	urgent[0].Priority = 1
	insert(t, store, urgent...)
	want = append([]stint.TaskID{urgent[0].ID}, want...)
	var got []stint.TaskID
	for range want {
		got = append(got, idsOf(ownOf(t, store, 1, groupActions()...))...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q were fetched, want %q", got, want)
	}
}

// An action at its limit, and a key at its limit in one action, keep nobody from their shares.
// Proves G263.
func TestFairGroup_WhatIsAtItsLimitHoldsUpNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"action":   {Concurrency: 5},
		"rate":     {Rate: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 5}},
		"key":      {ConcurrencyPerKey: 5},
		"key rate": {RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newGroupStore(t)
			limits.Fair, limits.FairGroup = true, "tenants"
			wantErr(t, "SetLimits", store.SetLimits(t.Context(), "mail", limits), nil)
			insert(t, store, tasksOf("mail", "a", 400)...)
			insert(t, store, tasksOf("sync", "a", 400)...)
			insert(t, store, tasksOf("render", "b", 400)...)
			got, mails := map[string]int{}, 0
			for range 10 {
				owned := ownOf(t, store, 40, groupActions()...)
				if len(owned) != 40 {
					t.Fatalf("%d tasks were fetched, want 40", len(owned))
				}
				for _, task := range owned {
					got[task.Key]++
					if task.Action == "mail" {
						mails++
					}
				}
			}
			if mails != 5 || max(got["a"], got["b"])-min(got["a"], got["b"]) > 64 {
				t.Errorf("the keys get %v, with %d of mail, want as many each, with 5", got, mails)
			}
		})
	}
}

// A paused key or action does not either, and a key goes on where others are by then.
// Proves G263.
func TestFairGroup_APausedKeySavesUpNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newGroupStore(t)
	insert(t, store, tasksOf("mail", "a", 600)...)
	insert(t, store, tasksOf("sync", "b", 1200)...)
	wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "mail", "a"), nil)
	if got := ownRounds(t, store, "", 20); got["a"] > 0 || got["b"] < 600 {
		t.Fatalf("%v were fetched, want b", got)
	}
	wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "mail", "a"), nil)
	got := map[string]int{}
	for range 5 {
		for key, n := range byKey(ownOf(t, store, 64, groupActions()...)) {
			got[key] += n
		}
	}
	if got["a"] < 160-64 || got["b"] < 160-64 {
		t.Errorf("%v of 320 were fetched, want as many of each", got)
	}
}

// An action that comes to a group, or leaves it, owes nothing and is owed nothing, whatever its
// keys got before.
// Proves G264.
func TestFairGroup_ChangesWhileTasksWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, before := range map[string]struct{ group, asked string }{
		"it had many": {"", "mail"}, "others had": {"", "sync"}, "none had any": {},
		"another group's": {"others", "mail"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newGroupStore(t)
			setGroup(t, store, "mail", "")
			for _, key := range []string{"a", "b"} {
				insert(t, store, tasksOf("mail", key, 1200)...)
			}
			insert(t, store, tasksOf("sync", "c", 1200)...)
			ownOf(t, store, 2, groupActions()...) // all wait for their turns
			setGroup(t, store, "mail", before.group)
			if before.asked != "" {
				ownRounds(t, store, before.asked, 20)
			}
			setGroup(t, store, "mail", "tenants")
			wantThirds(t, ownRounds(t, store, "", 15))
			setGroup(t, store, "mail", "")
			if got := byKey(ownOf(t, store, 64, "mail")); got["a"] != 32 || got["b"] != 32 {
				t.Errorf("alone again, the keys get %v of 64, want 32 each", got)
			}
		})
	}
}

// ownRounds owns tasks of an action, or of all in the group, 32 at a time, so many times.
func ownRounds(t *testing.T, store *stint.Store, action string, times int) map[string]int {
	t.Helper()
	actions := groupActions()
	if action != "" {
		actions = []string{action}
	}
	got := map[string]int{}
	for range times {
		for key, n := range byKey(ownOf(t, store, 32, actions...)) {
			got[key] += n
		}
	}
	return got
}

// wantThirds checks that three keys got as many tasks each, to within two turns.
func wantThirds(t *testing.T, got map[string]int) {
	t.Helper()
	counts := []int{got["a"], got["b"], got["c"]}
	if slices.Max(counts)-slices.Min(counts) > 64 {
		t.Errorf("the keys get %v, want as many each", got)
	}
}

// A store that does not know yet that actions share turns fetches none of their tasks otherwise.
// Proves G260.
func TestFairGroup_HoldsForAStoreThatDoesNotKnowOfItYet(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newGroupStore(t)
	other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever, PollOnly: true})
	for _, action := range groupActions() {
		setGroup(t, store, action, "")
	}
	ownOf(t, other, 1, groupActions()...) // learns of turns
	for _, action := range groupActions() {
		setGroup(t, store, action, "tenants")
		insert(t, store, tasksOf(action, "a", 64)...)
	}
	insert(t, store, tasksOf("sync", "b", 64)...)
	if got := byKey(ownOf(t, other, 64, groupActions()...)); got["a"] != 32 || got["b"] != 32 {
		t.Errorf("the keys get %v of 64, want 32 each", got)
	}
}

// Explain counts the turns of other keys in all actions of the group, each once.
// Proves G42.
func TestExplain_CountsTheTurnsOfAGroup(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newGroupStore(t)
	for _, action := range groupActions() {
		insert(t, store, tasksOf(action, "a", 64)...)
	}
	insert(t, store, tasksOf("mail", "b", 64)...)
	last := tasksOf("sync", "c", 64)
	insert(t, store, last...)
	ownOf(t, store, 1, groupActions()...) // the others wait for their turns
	ownOf(t, store, 63, "sync")           // of a and c, so that b comes first, and then a
	got, err := store.Explain(t.Context(), last[63].ID)
	wantErr(t, "Explain", err, nil)
	if l := got.Limits; l == nil || !l.WaitsForTurn || l.TurnsAhead != 2 ||
		l.Limits.FairGroup != "tenants" {
		t.Errorf("Explain = %+v, want the turns of a and b", l)
	}
}

// A fair action beside those of a group takes turns by itself.
func TestFairGroup_OtherFairActionsTakeTurnsByThemselves(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newGroupStore(t)
	setGroup(t, store, "sync", "")
	for _, action := range groupActions() {
		insert(t, store, tasksOf(action, "a", 200)...)
	}
	insert(t, store, tasksOf("mail", "b", 200)...)
	insert(t, store, tasksOf("sync", "b", 200)...)
	alone, shared := map[string]int{}, map[string]int{}
	for range 10 {
		owned := ownOf(t, store, 32, groupActions()...)
		for _, task := range owned {
			if task.Action == "sync" {
				alone[task.Key]++
			} else {
				shared[task.Key]++
			}
		}
	}
	for _, got := range []map[string]int{alone, shared} {
		if diff := got["a"] - got["b"]; diff < -32 || diff > 32 {
			t.Errorf("the keys get %v of sync and %v of the group", alone, shared)
		}
	}
}

func TestSetLimits_RefusesAGroupWithoutTurns(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for name, limits := range map[string]stint.Limits{
		"unfair": {FairGroup: "tenants"},
		"long":   {Fair: true, FairGroup: strings.Repeat("x", 256)},
		"NUL":    {Fair: true, FairGroup: "\x00"},
	} {
		var refused *stint.ArgumentError
		if err := store.SetLimits(t.Context(), "mail", limits); !errors.As(err, &refused) {
			t.Errorf("%s: SetLimits gave %v, want an ArgumentError", name, err)
		}
	}
}
