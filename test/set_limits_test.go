package stint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// limitsOf returns the limits and pauses of action "act", if it has any.
func limitsOf(tb testing.TB, store *stint.Store) (stint.ActionLimits, bool) {
	tb.Helper()
	list, err := store.ListLimits(tb.Context(), "act")
	if err != nil || len(list) > 1 {
		tb.Fatalf("ListLimits = %+v, %v", list, err)
	}
	if len(list) == 0 {
		return stint.ActionLimits{}, false
	}
	return list[0], true
}

func setLimits(tb testing.TB, store *stint.Store, limits stint.Limits) {
	tb.Helper()
	wantErr(tb, "SetLimits", store.SetLimits(tb.Context(), "act", limits), nil)
}

// wantSince checks from which version on releases may work with the schema.
func wantSince(tb testing.TB, pool *pgxpool.Pool, when string, want int) {
	tb.Helper()
	if got := yields[int](tb, pool, "SELECT since FROM stint.supported"); got != want {
		tb.Errorf("%s, the schema supports releases from version %d on, want %d", when, got, want)
	}
}

// giveKeys gives tasks the key that their IDs begin with, up to a slash.
func giveKeys(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, "UPDATE stint.tasks SET limit_key = split_part(id, '/', 1)")
}

func TestSetLimits_TakesThePlaceOfTheLimitsBefore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for _, limits := range []stint.Limits{
		{Concurrency: 40},
		{ConcurrencyPerKey: 1000, Fair: true},
		{Rate: stint.Rate{Tasks: 1000, Per: time.Second, Burst: 7}},
		{RatePerKey: stint.Rate{Tasks: 1, Per: 366 * 24 * time.Hour, Burst: 1000}},
		{
			Concurrency: 1_000_000_000, ConcurrencyPerKey: 1, Fair: true,
			Rate:       stint.Rate{Tasks: 1_000_000_000, Per: time.Microsecond, Burst: 1},
			RatePerKey: stint.Rate{Tasks: 5, Per: time.Minute, Burst: 3},
		},
		{Fair: true},
	} {
		for range 2 { // the call may be repeated
			setLimits(t, store, limits)
			if got, _ := limitsOf(t, store); got.Limits != limits || got.SetAt.IsZero() {
				t.Errorf("ListLimits = %+v, want %+v", got, limits)
			}
		}
	}
	for range 2 {
		setLimits(t, store, stint.Limits{})
		if got, ok := limitsOf(t, store); ok {
			t.Errorf("ListLimits = %+v, want none", got)
		}
	}
}

func TestSetLimits_FillsInWhatComesInASecondAsBurst(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, test := range []struct {
		rate stint.Rate
		want int
	}{
		{stint.Rate{Tasks: 1000, Per: time.Second}, 1000},
		{stint.Rate{Tasks: 5, Per: time.Minute}, 1},
		{stint.Rate{Tasks: 150, Per: time.Minute}, 2},
		{stint.Rate{Tasks: 1_000_000_000, Per: time.Microsecond}, 1_000_000_000},
	} {
		setLimits(t, store, stint.Limits{Rate: test.rate})
		got, _ := limitsOf(t, store)
		if got.Limits.Rate.Burst != test.want {
			t.Errorf("%+v has burst %d, want %d", test.rate, got.Limits.Rate.Burst, test.want)
		}
		setLimits(t, store, stint.Limits{})
	}
}

func TestSetLimits_RefusesBadInput(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	good := stint.Limits{Concurrency: 1}
	rate := func(tasks int, per time.Duration, burst int) stint.Limits {
		return stint.Limits{Rate: stint.Rate{Tasks: tasks, Per: per, Burst: burst}}
	}
	for i, test := range []struct {
		action, argument string
		limits           stint.Limits
	}{
		{"", "action", good},
		{strings.Repeat("a", 256), "action bytes", good},
		{"a\x00", "action", good},
		{"\xff", "action", good},
		{stint.Spontaneous, "action", good},
		{stint.External, "action", stint.Limits{}},
		{"stint.Report/shard", "action", good},
		{"act", "Limits.Concurrency", stint.Limits{Concurrency: -1}},
		{"act", "Limits.Concurrency", stint.Limits{Concurrency: 1_000_000_001}},
		{"act", "Limits.ConcurrencyPerKey", stint.Limits{ConcurrencyPerKey: -1}},
		{"act", "Limits.ConcurrencyPerKey", stint.Limits{ConcurrencyPerKey: 1001}},
		{"act", "Limits.Rate.Tasks", rate(0, time.Second, 0)},
		{"act", "Limits.Rate.Tasks", rate(1_000_000_001, time.Second, 0)},
		{"act", "Limits.Rate.Per", rate(1, 0, 0)},
		{"act", "Limits.Rate.Per", rate(1, -1, 0)},
		{"act", "Limits.Rate.Per", rate(1, 366*24*time.Hour+1, 0)},
		{"act", "Limits.Rate.Burst", rate(1, time.Second, -1)},
		{"act", "Limits.Rate.Burst", rate(1, time.Second, 1_000_000_001)},
		{"act", "Limits.RatePerKey.Per", stint.Limits{RatePerKey: stint.Rate{Tasks: 1}}},
	} {
		err := store.SetLimits(t.Context(), test.action, test.limits)
		wantArgument(t, fmt.Sprintf("%d: SetLimits", i), err, test.argument)
	}
	if list, err := store.ListLimits(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("ListLimits = %+v, %v", list, err)
	}
}

// wantArgument checks that an argument was refused.
func wantArgument(tb testing.TB, call string, err error, argument string) {
	tb.Helper()
	var refused *stint.ArgumentError
	if !errors.As(err, &refused) || refused.Argument != argument ||
		!errors.Is(err, stint.ErrInvalidArgument) {
		tb.Errorf("%s = %v, want an error about %s", call, err, argument)
	}
}

// limiting are the verbs that set something, each called with something to set, on action "act".
// The first three limit; the others take limits away, or limit nothing.
func limiting(store *stint.Store) []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error {
			return store.SetLimits(ctx, "act", stint.Limits{Fair: true})
		},
		func(ctx context.Context) error { return store.Pause(ctx, "act") },
		func(ctx context.Context) error { return store.PauseKeys(ctx, "act", "key") },
		func(ctx context.Context) error {
			return store.SetWeights(ctx, "act", map[string]int{"key": 3})
		},
		func(ctx context.Context) error { return store.ResumeKeys(ctx, "act", "key") },
		func(ctx context.Context) error { return store.Resume(ctx, "act") },
		func(ctx context.Context) error {
			return store.SetLimits(ctx, "act", stint.Limits{})
		},
	}
}

func TestLimiting_IsRefusedInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	tx := begin(t, pool)
	for i, verb := range limiting(store.WithTx(tx)) {
		wantArgument(t, fmt.Sprintf("verb %d", i), verb(t.Context()), "store")
	}
	if _, err := store.WithTx(tx).ListLimits(t.Context()); err != nil {
		t.Errorf("ListLimits = %v", err)
	}
}

// Limits bind the releases that know of them, so others must be gone first.
// Proves G41.
func TestLimiting_IsRefusedAsLongAsOlderStoresAreConnected(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	older := begin(t, pool)
	if _, err := older.Exec(t.Context(), "SELECT pg_advisory_lock_shared(4711)"); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "INSERT INTO stint.sessions (id, grace, watches, topics, schema_version) "+
		"VALUES (4711, '1 h', false, '{}', 1), (4712, '1 h', false, '{}', 2)")
	wantLimiting := func(when string, want error) {
		t.Helper()
		for i, verb := range limiting(store) {
			if i > 2 {
				want = nil
			}
			if err := verb(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s, verb %d = %v, want %v", when, i, err, want)
			}
			if rows := yields[int](t, pool, "SELECT count(*) FROM stint.limits"); want != nil &&
				rows > 0 {
				t.Errorf("%s, verb %d was refused and limits", when, i)
			}
		}
		wantSince(t, pool, when, 1)
	}
	wantLimiting("while one is connected", stint.ErrSchemaVersion)
	err := store.Pause(t.Context(), "act")
	if err == nil || !strings.Contains(err.Error(), "older release") ||
		!strings.Contains(err.Error(), "connected: 1; replace their processes first") {
		t.Errorf("Pause = %v", err)
	}
	wantErr(t, "Rollback", older.Rollback(t.Context()), nil)
	exec(t, pool, "SELECT pg_advisory_unlock_all()")
	eventually(t, soon, "the older store is gone", func() bool {
		return yields[bool](t, pool, "SELECT NOT EXISTS (SELECT FROM pg_locks "+
			"WHERE locktype = 'advisory' AND objid = 4711)")
	})
	wantLimiting("while it may come back", stint.ErrSchemaVersion)
	exec(t, pool, "UPDATE stint.sessions SET gone_at = gone_at - interval '2 h' "+
		"WHERE gone_at IS NOT NULL")
	wantLimiting("when it is gone", nil)
}

// Proves G41.
func TestLimiting_KeepsOlderReleasesOutAsLongAsSomethingIsLimited(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	wantSince(t, pool, "at first", 1)
	wantErr(t, "SetWeights", store.SetWeights(ctx, "act", map[string]int{"key": 2}), nil)
	wantSince(t, pool, "with a weight", 1)
	setLimits(t, store, stint.Limits{Concurrency: 1})
	wantErr(t, "Pause", store.Pause(ctx, "act"), nil)
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "act", "key"), nil)
	setLimits(t, store, stint.Limits{})
	wantSince(t, pool, "paused", 2)
	wantErr(t, "Resume", store.Resume(ctx, "act"), nil)
	wantSince(t, pool, "with a paused key", 2)
	wantErr(t, "Pause", store.Pause(ctx, "other"), nil)
	wantErr(t, "ResumeKeys", store.ResumeKeys(ctx, "act", "key"), nil)
	wantSince(t, pool, "with another action", 2)
	wantErr(t, "Resume", store.Resume(ctx, "other"), nil)
	wantSince(t, pool, "with nothing", 1)

	// A later version of the schema may exclude releases for a reason of its own.
	exec(t, pool, "UPDATE stint.stint_schema_version SET version = 3")
	exec(t, pool, "UPDATE stint.supported SET since = 3")
	wantErr(t, "Pause", store.Pause(ctx, "act"), nil)
	wantErr(t, "Resume", store.Resume(ctx, "act"), nil)
	wantSince(t, pool, "of a later schema", 3)
	exec(t, pool, "UPDATE stint.supported SET since = 1")
}

// Proves L6.
func TestLimiting_AtOnceLeavesWhatTheLastOneSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	verbs := limiting(store)
	for range 5 {
		var calls []func() error
		for i := range 2 * len(verbs) {
			verb := verbs[i%len(verbs)]
			calls = append(calls, func() error { return verb(t.Context()) })
		}
		for i, err := range atOnce(calls...) {
			wantErr(t, fmt.Sprintf("verb %d", i%len(verbs)), err, nil)
		}
		wrong := yields[int](t, pool, `SELECT count(*) FROM stint.limits
			WHERE paused_at IS NULL AND NOT fair
			  AND NOT EXISTS (SELECT FROM stint.limited_keys WHERE paused_at IS NOT NULL)`)
		limited := yields[bool](t, pool, "SELECT EXISTS (SELECT FROM stint.limits)")
		since := yields[int](t, pool, "SELECT since FROM stint.supported")
		if wrong > 0 || limited != (since == 2) {
			t.Errorf("%d empty rows, limited: %t, since %d", wrong, limited, since)
		}
	}
	wantNoDeadlocks(t, pool)
}

// Setters wait for each other, so that none sees half of what another one does.
// Proves L6.
func TestLimiting_TakesTurns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	for i := range limiting(nil) {
		other := begin(t, pool)
		if _, err := other.Exec(t.Context(), statements(t)["lock_limiting"]); err != nil {
			t.Fatal(err)
		}
		setting := start(func() (bool, error) { return true, limiting(store)[i](t.Context()) })
		waitForLocks(t, pool, 1)
		wantGoingOn(t, "the verb", setting)
		wantErr(t, "Commit", other.Commit(t.Context()), nil)
		_, err := ends(t, "the verb", setting)
		wantErr(t, "the verb", err, nil)
	}
}

func TestLimiting_EndsWithItsContextAndTheStore(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for i, verb := range limiting(store) {
		wantErr(t, fmt.Sprintf("verb %d", i), verb(cancelled(t)), context.Canceled)
	}
	wantErr(t, "Close", store.Close(t.Context()), nil)
	for i, verb := range limiting(store) {
		wantErr(t, fmt.Sprintf("verb %d", i), verb(t.Context()), stint.ErrClosed)
	}
}
