package stint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func keyTask(id stint.TaskID, key string) stint.Task {
	return stint.Task{ID: id, Action: "act", Key: key}
}

// whyOf explains a task.
func whyOf(t *testing.T, store *stint.Store, id stint.TaskID) stint.Explanation {
	t.Helper()
	why, err := store.Explain(t.Context(), id)
	wantErr(t, "Explain", err, nil)
	return why
}

// Proves G42.
func TestExplain_SaysWhichLimitHoldsATaskUp(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	hourly, burst := stint.Rate{Tasks: 1, Per: time.Hour}, hourly(3)
	for name, test := range map[string]struct {
		limits     stint.Limits
		asked, own int
		want       []string
		is         func(stint.TaskLimits) bool
	}{
		"concurrency": {
			stint.Limits{Concurrency: 2},
			3, 2,
			[]string{
				"\"last\" is ready, but\n  2 of 2 \"act\" tasks are in progress\n" +
					"    \"first\", \"actor\" owns it until 2", "\n    \"second\", \"actor\"",
			},
			func(l stint.TaskLimits) bool {
				return l.InProgress == 2 && l.KeyWaiting == 0 && len(l.Owned) == 2
			},
		},
		"concurrency of the key": {
			stint.Limits{ConcurrencyPerKey: 1},
			3, 1,
			[]string{
				"\"last\" is ready, but\n  1 of 1 tasks with key \"k\" are in progress\n" +
					"    \"first\", \"actor\" owns it until 2",
				"\n  tasks with key \"k\" that wait: 2",
			},
			func(l stint.TaskLimits) bool {
				return l.KeyInProgress == 1 && l.KeyWaiting == 2 && !l.KeyWaitingOrMore &&
					len(l.KeyOwned) == 1 && l.KeyOwned[0].ID == "first"
			},
		},
		"rate": {
			stint.Limits{Rate: hourly},
			3, 1,
			[]string{"\"last\" is ready, but\n  the next token of \"act\" comes at 2"},
			func(l stint.TaskLimits) bool { return l.KeyNextAt.IsZero() && within(l.NextAt) },
		},
		"rate of the key": {
			stint.Limits{RatePerKey: hourly},
			3, 1,
			[]string{
				"\"last\" is ready, but\n  the next token of key \"k\" comes at 2",
				"\n  tasks with key \"k\" that wait: 2",
			},
			func(l stint.TaskLimits) bool { return l.NextAt.IsZero() && within(l.KeyNextAt) },
		},
		"nothing yet": {
			stint.Limits{Concurrency: 3, ConcurrencyPerKey: 3, RatePerKey: burst},
			2, 2,
			[]string{`"last" is ready: it waits for an actor`},
			func(l stint.TaskLimits) bool { return l.InProgress == 2 && l.KeyInProgress == 2 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			setLimits(t, store, test.limits)
			insert(t, store, keyTask("first", "k"), keyTask("second", "k"), keyTask("last", "k"))
			if got := own(t, store, test.asked); len(got) != test.own {
				t.Fatalf("%d tasks were fetched, want %d", len(got), test.own)
			}
			why := whyOf(t, store, "last")
			wantText(t, why.String(), test.want...)
			wantLimits(t, why, test.is)
			wantNotHeldUp(t, store, "first")
		})
	}
}

// Proves G42, G254.
func TestExplain_NamesTheTaskThatHoldsAKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const holds = "\"last\" is ready, but\n  tasks with key \"k\" come one at a time, in order, " +
		"and one has not ended\n    \"first\", "
	for state, test := range map[stint.State]struct {
		goesOn stint.Return
		want   string
	}{
		stint.StateReady: {
			stint.Return{Code: stint.StatusPending}, holds + "which is ready\n",
		},
		stint.StateScheduled: {
			stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour},
			holds + "which is scheduled until 2",
		},
		stint.StateInProgress: {want: holds + "\"actor\" owns it until 2"},
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			setLimits(t, store, stint.Limits{Ordered: true})
			insert(t, store, keyTask("first", "k"), keyTask("second", "k"), keyTask("last", "k"))
			owned := own(t, store, 3)
			if state != stint.StateInProgress {
				returnWith(t, store, owned[0], test.goesOn)
			}
			why := whyOf(t, store, "last")
			wantText(t, why.String(), test.want, "\n  tasks with key \"k\" that wait: 2")
			wantLimits(t, why, func(l stint.TaskLimits) bool {
				return len(l.KeyOwned) == 1 && l.KeyOwned[0].ID == "first" &&
					l.KeyOwned[0].State == state && l.Limits.Ordered
			})
			if state == stint.StateReady {
				wantText(t, whyOf(t, store, "first").String(), "is ready: it waits for an actor")
			}
		})
	}
}

// wantLimits checks what holds up a task.
func wantLimits(t *testing.T, why stint.Explanation, is func(stint.TaskLimits) bool) {
	t.Helper()
	if why.Limits == nil || !is(*why.Limits) {
		t.Errorf("Explain = %+v", why.Limits)
	}
}

// wantNotHeldUp checks that no limits hold up a task, which is in progress.
func wantNotHeldUp(t *testing.T, store *stint.Store, id stint.TaskID) {
	t.Helper()
	if why := whyOf(t, store, id); why.Limits != nil {
		t.Errorf("limits hold up a task in progress: %+v", why.Limits)
	}
}

// within reports whether a time is in the next hour.
func within(at time.Time) bool {
	left := time.Until(at)
	return left > -time.Minute && left < time.Hour+time.Minute && !at.IsZero()
}

// Proves G42.
func TestExplain_SaysWhatIsPaused(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, keyTask("a", "k"), keyTask("b", "other"))
	if why := whyOf(t, store, "a"); why.Limits != nil {
		t.Errorf("without limits and pauses, Explain = %+v", why.Limits)
	}
	wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "k"), nil)
	if got := own(t, store, 2); len(got) != 1 || got[0].ID != "b" {
		t.Fatalf("%+v were fetched, want b", got)
	}
	wantErr(t, "Pause", store.Pause(t.Context(), "act"), nil)
	why := whyOf(t, store, "a")
	wantText(t, why.String(), "\"a\" is ready, but\n  \"act\" has been paused since 2",
		"\n  key \"k\" has been paused since 2", "\n  tasks with key \"k\" that wait: 1")
	if why.Limits.PausedSince.IsZero() || why.Limits.KeyPausedSince.IsZero() {
		t.Errorf("Explain = %+v", why.Limits)
	}
}

// Proves G42.
func TestExplain_SaysHowManyTurnsComeFirst(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	setLimits(t, store, stint.Limits{Fair: true})
	insert(t, store, keyTask("a1", "a"), keyTask("a2", "a"), keyTask("b", "b"), keyTask("c", "c"),
		keyTask("none", ""))
	wantText(t, whyOf(t, store, "a1").String(), `the turn of key "a" is next`)
	if got := own(t, store, 2); len(got) != 2 || got[0].ID != "a1" {
		t.Fatalf("%+v were fetched, want a1 and none", got)
	}
	for id, want := range map[stint.TaskID]string{
		"b":  "\"b\" is ready, but\n  the turn of key \"b\" is next\n  tasks",
		"c":  `the turn of key "c" comes after 1 other`,
		"a2": `the turn of key "a" comes after 2 others`,
	} {
		wantText(t, whyOf(t, store, id).String(), want)
	}
	wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "b"), nil)
	if why := whyOf(t, store, "b").String(); strings.Contains(why, "turn") {
		t.Errorf("of a paused key, Explain says %s", why)
	}
}

// The first few are named, and the rest is only counted up to a bound.
// Proves G42.
func TestExplain_StopsCounting(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newUncheckedStore(t, stint.Options{})
	const many = 10_500
	setLimits(t, store, stint.Limits{ConcurrencyPerKey: 150, Fair: true})
	tasks := make([]stint.Task, many)
	for i := range tasks {
		tasks[i] = keyTask(stint.TaskID(fmt.Sprintf("%06d", i)), "k")
	}
	insert(t, store, tasks...)
	own(t, store, 150)
	why := whyOf(t, store, "010000")
	if l := why.Limits; l.KeyInProgress != 150 || len(l.KeyOwned) != 100 {
		t.Errorf("%d are in progress, %d named", l.KeyInProgress, len(l.KeyOwned))
	}
	wantText(t, why.String(), "    and 140 more")
	if n := strings.Count(why.String(), "owns it until"); n != 10 {
		t.Errorf("%d owned tasks are named, want 10", n)
	}
	exec(t, pool, "DELETE FROM stint.ready")
	exec(t, pool, `INSERT INTO stint.ready (position, lo, hi, action, limit_key, priority, tries)
		SELECT '-9223372036854775808'::bigint + key, key, key, action, limit_key, 0, 0
		FROM stint.tasks WHERE id >= '000150'`)
	exec(t, pool, `INSERT INTO stint.turns (pass, tier, action, limit_key)
		SELECT 0, 0, 'act', n::text FROM generate_series(1, 10500) AS n`)
	exec(t, pool, "DELETE FROM stint.slots")
	exec(t, pool, `INSERT INTO stint.turns (pass, tier, action, limit_key)
		VALUES (1, 32767, 'act', 'k') ON CONFLICT DO NOTHING`)
	why = whyOf(t, store, "010000")
	if l := why.Limits; l.KeyWaiting != 10_000 || !l.KeyWaitingOrMore || l.TurnsAhead != 10_000 {
		t.Errorf("Explain = %+v", l)
	}
	wantText(t, why.String(), "comes after 10000 others or more",
		`tasks with key "k" that wait: 10000 or more`)
}

// However fast tasks come and go, those in the place of a task are as many as are in progress.
// Proves G306.
func TestExplain_IsOfOneInstant(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", stint.Limits{Concurrency: 8}), nil)
	looks := testrun.Rounds(1000)
	tasks := numbered("t", 20*looks) // more than are performed meanwhile
	insert(t, store, tasks...)
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() {
		for ctx.Err() == nil {
			owned, err := store.OwnTasks(ctx, "actor", 8, []string{"act"}, time.Hour)
			for _, task := range owned {
				err = errors.Join(err, store.ReturnTask(ctx, task.ID, task.Token, "",
					stint.StatusCompleted))
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("owning and returning: %v", err)
			}
		}
	})
	for range looks {
		why, err := store.Explain(t.Context(), tasks[len(tasks)-1].ID)
		if err != nil || why.Limits == nil {
			t.Fatalf("Explain = %+v, %v", why, err)
		}
		if n := len(why.Limits.Owned); why.Limits.InProgress == 8 && n != 8 {
			t.Errorf("%d tasks are in its place, of %d in progress", n, why.Limits.InProgress)
		}
	}
}
