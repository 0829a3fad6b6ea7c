package stint_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestPause_KeepsSinceWhenAndTheLimits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	setLimits(t, store, stint.Limits{Concurrency: 3})
	wantErr(t, "Pause", store.Pause(ctx, "other", "act", "act"), nil)
	exec(t, pool, "UPDATE stint.limits SET paused_at = paused_at - interval '1 hour'")
	first, _ := limitsOf(t, store)
	if first.PausedSince.IsZero() || first.Limits.Concurrency != 3 {
		t.Errorf("ListLimits = %+v", first)
	}
	wantErr(t, "Pause", store.Pause(ctx, "act"), nil)
	setLimits(t, store, stint.Limits{Concurrency: 4})
	if again, _ := limitsOf(t, store); !again.PausedSince.Equal(first.PausedSince) {
		t.Errorf("it is paused since %v, want %v", again.PausedSince, first.PausedSince)
	}
	setLimits(t, store, stint.Limits{})
	if got, _ := limitsOf(t, store); got.PausedSince.IsZero() || !got.SetAt.IsZero() ||
		got.Limits != (stint.Limits{}) {
		t.Errorf("without limits, ListLimits = %+v", got)
	}
	for range 2 {
		wantErr(t, "Resume", store.Resume(ctx, "act", "other", "unknown"), nil)
	}
	if list, err := store.ListLimits(ctx); err != nil || len(list) > 0 {
		t.Errorf("ListLimits = %+v, %v", list, err)
	}
	wantErr(t, "Pause of nothing", store.Pause(ctx), nil)
	wantErr(t, "Resume of nothing", store.Resume(ctx), nil)
}

func TestPauseKeys_KeepsSinceWhenAndTheWeights(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	wantErr(t, "SetWeights", store.SetWeights(ctx, "act", map[string]int{"a": 5, "c": 7}), nil)
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "act", "b", "a", "b"), nil)
	exec(t, pool, "UPDATE stint.limited_keys SET paused_at = paused_at - interval '1 hour'")
	first, _ := limitsOf(t, store)
	if got := slices.Sorted(maps.Keys(first.PausedKeys)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the keys %q are paused", got)
	}
	if want := map[string]int{"a": 5, "c": 7}; !maps.Equal(first.Weights, want) {
		t.Errorf("the weights are %v, want %v", first.Weights, want)
	}
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "act", "a", "b"), nil)
	if again, _ := limitsOf(t, store); !again.PausedKeys["b"].Equal(first.PausedKeys["b"]) {
		t.Errorf("b is paused since %v, want %v", again.PausedKeys["b"], first.PausedKeys["b"])
	}
	for range 2 {
		wantErr(t, "ResumeKeys", store.ResumeKeys(ctx, "act", "a", "b", "unknown"), nil)
	}
	got, _ := limitsOf(t, store)
	if len(got.PausedKeys) > 0 || !maps.Equal(got.Weights, first.Weights) {
		t.Errorf("when they are resumed, ListLimits = %+v", got)
	}
	if rows := yields[int](t, pool, "SELECT count(*) FROM stint.limits"); rows > 0 {
		t.Error("the action has a row of limits, though nothing is limited")
	}
	wantErr(t, "PauseKeys of nothing", store.PauseKeys(ctx, "act"), nil)
	wantErr(t, "ResumeKeys of nothing", store.ResumeKeys(ctx, "act"), nil)
}

func TestPause_RefusesBadInput(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := newStore(t)
	many := make([]string, 10_001)
	for i := range many {
		many[i] = fmt.Sprint("name", i)
	}
	weights := func(weight int) error {
		return store.SetWeights(ctx, "act", map[string]int{"a": 1, "key": weight})
	}
	tooMany := map[string]int{}
	for _, key := range many {
		tooMany[key] = 1
	}
	for _, test := range []struct {
		argument string
		err      error
	}{
		{"action", store.Pause(ctx, "act", "")},
		{"action", store.Resume(ctx, "act", stint.Spontaneous)},
		{"actions", store.Pause(ctx, many...)},
		{"actions", errOf(store.ListLimits(ctx, many...))},
		{"action", errOf(store.ListLimits(ctx, ""))},
		{"action", store.PauseKeys(ctx, "", "key")},
		{"action", store.PauseKeys(ctx, stint.External, "key")},
		{"key", store.PauseKeys(ctx, "act", "key", "")},
		{"key bytes", store.ResumeKeys(ctx, "act", strings.Repeat("k", 256))},
		{"key", store.ResumeKeys(ctx, "act", "a\x00")},
		{"keys", store.PauseKeys(ctx, "act", many...)},
		{"action", store.SetWeights(ctx, "", map[string]int{"key": 1})},
		{"key", store.SetWeights(ctx, "act", map[string]int{"": 1})},
		{"keys", store.SetWeights(ctx, "act", tooMany)},
		{"weights", weights(0)},
		{"weights", weights(1001)},
	} {
		wantArgument(t, "the call", test.err, test.argument)
	}
	if list, err := store.ListLimits(ctx); err != nil || len(list) > 0 {
		t.Errorf("ListLimits = %+v, %v", list, err)
	}
}

func TestSetWeights_KeepsWhatIsNotNamedAndForgetsTheUsualWeight(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "act", "paused"), nil)
	for range 2 {
		wantErr(t, "SetWeights", store.SetWeights(ctx, "act",
			map[string]int{"a": 2, "b": 1000, "paused": 3, "usual": 1}), nil)
	}
	wantErr(t, "SetWeights",
		store.SetWeights(ctx, "act", map[string]int{"a": 1, "paused": 1}), nil)
	wantErr(t, "SetWeights of nothing", store.SetWeights(ctx, "act", nil), nil)
	got, _ := limitsOf(t, store)
	if want := map[string]int{"b": 1000}; !maps.Equal(got.Weights, want) {
		t.Errorf("the weights are %v, want %v", got.Weights, want)
	}
	keys := yields[string](t, pool, "SELECT string_agg(limit_key, ' ' ORDER BY limit_key) "+
		"FROM stint.limited_keys")
	if keys != "b paused" {
		t.Errorf("the keys %s have rows", keys)
	}
}

// park parks the ready tasks of keys, as a fetch does that finds no room for them.
func park(t *testing.T, pool *pgxpool.Pool, keys ...string) {
	t.Helper()
	exec(t, pool, `UPDATE stint.ready
		SET position = position | -9223372036854775808, limit_key = tasks.limit_key
		FROM stint.tasks
		WHERE tasks.key = ready.lo AND tasks.limit_key = ANY ($1)`, keys)
}

// queue describes the places of tasks in the queue, parked or not.
func queue(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return yields[string](t, pool, `SELECT string_agg(concat_ws(' ', lo, position, rank), ', '
		ORDER BY lo) FROM stint.ready`)
}

func parked(t *testing.T, store *stint.Store) int {
	t.Helper()
	got, _ := limitsOf(t, store)
	return got.Parked
}

// Proves G38, L4.
func TestSetLimits_PutsParkedTasksBackToWhereTheyWere(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	const n = 2500 // more than two statements move
	tasks := keyedTasks(n, "a", "b", "c")
	for i := range tasks {
		tasks[i].Priority = int16(i % 7)
	}
	insert(t, store, tasks...)
	insert(t, store, stint.Task{ID: "a/other", Action: "other"})
	giveKeys(t, pool)
	exec(t, pool, "DELETE FROM stint.ready")
	exec(t, pool, `INSERT INTO stint.ready (lo, hi, action, priority, tries)
		SELECT key, key, action, priority, 0 FROM stint.tasks ORDER BY key`)
	setLimits(t, store, stint.Limits{ConcurrencyPerKey: 1})
	before := queue(t, pool)
	park(t, pool, "a", "c")
	if got := parked(t, store); got != n/3+1+n/3 {
		t.Errorf("%d tasks are parked", got)
	}
	setLimits(t, store, stint.Limits{ConcurrencyPerKey: 2})
	if got := parked(t, store); got != 0 {
		t.Errorf("%d tasks are still parked", got)
	}
	others := yields[int](t, pool, "SELECT count(*) FROM stint.ready WHERE position < 0")
	if others != 1 {
		t.Errorf("%d tasks are parked, want the one with another action", others)
	}
	exec(t, pool, "UPDATE stint.ready SET position = position & 9223372036854775807")
	if got := queue(t, pool); got != before {
		t.Errorf("the queue is not what it was")
	}
}

// Proves G38.
func TestResumeKeys_PutsTheTasksOfTheseKeysBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	for _, task := range keyedTasks(9, "a", "b", "c") { // a row each
		insert(t, store, task)
	}
	giveKeys(t, pool)
	before := queue(t, pool)
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "act", "a", "b", "c"), nil)
	park(t, pool, "a", "b", "c")
	wantErr(t, "ResumeKeys", store.ResumeKeys(ctx, "act", "c", "a"), nil)
	left := yields[string](t, pool, `SELECT string_agg(DISTINCT limit_key, ' ')
		FROM stint.ready WHERE position < 0`)
	if got := parked(t, store); got != 3 || left != "b" {
		t.Errorf("%d tasks of %s are parked, want 3 of b", got, left)
	}
	wantErr(t, "ResumeKeys", store.ResumeKeys(ctx, "act", "b"), nil)
	if got := queue(t, pool); got != before {
		t.Errorf("the queue is %s, want %s", got, before)
	}
}

// A parked row that somebody changes at this moment holds nobody up.
func TestResumeKeys_PassesOverWhatSomebodyLocks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	for _, task := range keyedTasks(3, "a") {
		insert(t, store, task)
	}
	giveKeys(t, pool)
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "act", "a", "other"), nil)
	park(t, pool, "a")
	tx := begin(t, pool)
	_, err := tx.Exec(ctx, "SELECT FROM stint.ready ORDER BY lo LIMIT 1 FOR UPDATE")
	wantErr(t, "SELECT", err, nil)
	wantErr(t, "ResumeKeys", store.ResumeKeys(ctx, "act", "a"), nil)
	if got := parked(t, store); got != 1 {
		t.Errorf("%d tasks are parked, want the one that is locked", got)
	}
	wantErr(t, "Rollback", tx.Rollback(ctx), nil)
	wantErr(t, "ResumeKeys", store.ResumeKeys(ctx, "act", "a"), nil)
	if got := parked(t, store); got != 0 {
		t.Errorf("%d tasks are parked", got)
	}
}

// Proves G39, L2.
func TestLimiting_WakesThoseWhoWaitForRoom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, wake := range map[string]func(*stint.Store) error{
		"SetLimits": func(s *stint.Store) error {
			return s.SetLimits(t.Context(), "act", stint.Limits{})
		},
		"Resume":     func(s *stint.Store) error { return s.Resume(t.Context(), "act") },
		"ResumeKeys": func(s *stint.Store) error { return s.ResumeKeys(t.Context(), "act", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeardStore(t, stint.Options{})
			waiting := h.await(t.Context(), t, 1)
			exec(t, h.pool, `INSERT INTO stint.tasks
				(key, max_tries, priority, on_abort, post_result, id, action, limit_key)
				VALUES (nextval('stint.blocks') << 10, 0, 0, 0, false, 'a/1', 'act', 'a')`)
			exec(t, h.pool, `INSERT INTO stint.ready (lo, hi, tries, priority, action)
				SELECT key, key, 0, 0, action FROM stint.tasks WHERE id = 'a/1'`)
			wantGoingOn(t, "WaitToOwnTasks", waiting)
			wantErr(t, name, wake(h.Store), nil)
			wantOwned(t, waiting, "a/1")
		})
	}
}

// Proves G38, L3.
func TestSetLimits_KeepsTheTokensThatThereAre(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	limits := func(tasks, burst int) stint.Limits {
		return stint.Limits{Rate: stint.Rate{Tasks: tasks, Per: 365 * 24 * time.Hour, Burst: burst}}
	}
	wantTokens := func(when string, from, to float64) stint.ActionLimits {
		t.Helper()
		got, _ := limitsOf(t, store)
		if got.Tokens < from || got.Tokens > to {
			t.Errorf("%s there are %v tokens, want %v to %v", when, got.Tokens, from, to)
		}
		return got
	}
	setLimits(t, store, stint.Limits{Concurrency: 1})
	setLimits(t, store, limits(1, 10))
	if got := wantTokens("first,", 10, 10); !got.NextAt.IsZero() {
		t.Errorf("the next token comes at %v, though there are some", got.NextAt)
	}
	exec(t, pool, "UPDATE stint.limits SET tokens = 3")
	setLimits(t, store, limits(1, 20))
	wantTokens("with more room,", 3, 3.1)
	exec(t, pool, "UPDATE stint.limits SET refilled_at = refilled_at - interval '730 days'")
	setLimits(t, store, limits(1, 20))
	wantTokens("after two more came,", 5, 5.1)
	exec(t, pool, "UPDATE stint.limits SET refilled_at = refilled_at - interval '7300 days'")
	setLimits(t, store, limits(1, 30))
	wantTokens("after more came than there was room for,", 20, 20.1)
	setLimits(t, store, limits(1, 2))
	wantTokens("with less room,", 2, 2)
	exec(t, pool, "UPDATE stint.limits "+
		"SET tokens = 0.5, refilled_at = refilled_at + interval '1 h'")
	setLimits(t, store, limits(1, 2))              // the clock was set back
	got := wantTokens("of the future,", 0.5, 0.51) // filled now
	if in := time.Until(got.NextAt); in < 180*24*time.Hour || in > 184*24*time.Hour {
		t.Errorf("the next token comes in %v, want half a year", in)
	}
	setLimits(t, store, stint.Limits{Fair: true})
	if got := wantTokens("without a rate,", 0, 0); !got.NextAt.IsZero() {
		t.Errorf("the next token comes at %v", got.NextAt)
	}
	setLimits(t, store, limits(1, 4))
	wantTokens("with a rate again,", 4, 4)
}

func TestListLimits_SortsAndPicks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := newStore(t)
	wantErr(t, "Pause", store.Pause(ctx, "c", "Z", "a"), nil)
	wantErr(t, "SetWeights", store.SetWeights(ctx, "b", map[string]int{"key": 2}), nil)
	wantList := func(want string, actions ...string) {
		t.Helper()
		list, err := store.ListLimits(ctx, actions...)
		var got []string
		for _, l := range list {
			got = append(got, l.Action)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("ListLimits(%q) = %q, %v, want %s", actions, got, err, want)
		}
	}
	wantList("Z a b c")
	wantList("a b", "b", "a", "unknown", "a")
	wantList("", "unknown")
}

func TestListLimits_StopsCountingAndListing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newUncheckedStore(t, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "Pause", store.Pause(ctx, "act", "b", "c"), nil)
	exec(t, pool, `INSERT INTO stint.ready (lo, hi, position, action, limit_key, priority, tries)
		SELECT n << 10, n << 10 | 999, n | -9223372036854775808, 'act', 'a', 0, 0
		FROM generate_series(1::bigint, 99) AS n`)
	if got, _ := limitsOf(t, store); got.Parked != 99_000 || got.ParkedOrMore {
		t.Errorf("%d are parked, or more: %t", got.Parked, got.ParkedOrMore)
	}
	exec(t, pool, `INSERT INTO stint.ready (lo, hi, position, action, limit_key, priority, tries)
		SELECT n << 10, n << 10 | 999, n | -9223372036854775808, 'act', 'a', 0, 0
		FROM generate_series(100::bigint, 102) AS n`)
	if got, _ := limitsOf(t, store); got.Parked != 100_000 || !got.ParkedOrMore {
		t.Errorf("%d are parked, or more: %t", got.Parked, got.ParkedOrMore)
	}
	exec(t, pool, `INSERT INTO stint.limited_keys (action, limit_key, weight)
		SELECT 'b', 'k' || n, 2 FROM generate_series(1, 9999) AS n`)
	exec(t, pool, `INSERT INTO stint.limited_keys (action, limit_key, weight)
		SELECT 'c', 'k' || n, 2 FROM generate_series(1, 9999) AS n`)
	list, err := store.ListLimits(ctx)
	if err != nil || len(list) != 3 {
		t.Fatalf("ListLimits = %d, %v", len(list), err)
	}
	for i, want := range []struct {
		weights int
		orMore  bool
	}{{0, false}, {9999, false}, {1, true}} {
		if got := list[i]; len(got.Weights) != want.weights || got.KeysOrMore != want.orMore {
			t.Errorf("%s: %d weights, or more: %t; want %+v", got.Action, len(got.Weights),
				got.KeysOrMore, want)
		}
	}
}
