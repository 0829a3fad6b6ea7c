package stint_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// noteFetched notes as if so many tasks with the action "act" had been fetched in each of the last
// minutes, while others waited.
func noteFetched(t *testing.T, pool *pgxpool.Pool, perMinute, minutes int) {
	t.Helper()
	exec(t, pool, "DELETE FROM stint.minutes")
	exec(t, pool, `INSERT INTO stint.minutes (minute, since, until, all_tries, all_retries,
			completed, failed, ready, estimated, action)
		SELECT date_trunc('minute', now(), 'UTC') - ago, now() - ago - interval '1 min',
		       now() - ago, $1::integer * ($2::integer - n), 0, 0, 0, 1, false, 'act'
		FROM generate_series(1, $2::integer) AS n, make_interval(mins => n) AS ago`,
		perMinute, minutes)
	exec(t, pool, `INSERT INTO stint.action_stats (asked_at, tries, action)
		VALUES (now(), $1::integer * $2::integer, 'act')
		ON CONFLICT (action) DO UPDATE SET tries = excluded.tries, asked_at = now()`,
		perMinute, minutes)
}

// wantStart checks when a task starts, in seconds from now, and how many come before it.
func wantStart(t *testing.T, why stint.Explanation, before int64, seconds float64) *stint.Start {
	t.Helper()
	s := why.Start
	if s == nil || s.Unknown != "" || s.Before != before ||
		math.Abs(s.At.Sub(why.Now).Seconds()-seconds) > 1+seconds/10 {
		t.Errorf("the start of %q is %+v, now is %v, want %d before it, in %g s", why.Task.ID, s,
			why.Now, before, seconds)
		return &stint.Start{}
	}
	return s
}

func wantUnknown(t *testing.T, why stint.Explanation, because string) {
	t.Helper()
	if why.Start == nil || why.Start.Unknown != because || !why.Start.At.IsZero() {
		t.Errorf("the start of %q is %+v, want that it is unknown, because %s", why.Task.ID,
			why.Start, because)
	}
}

// A ready task starts when those ahead of it have been handed out, at the pace that was noted.
//
// Proves G340.
func TestExplain_SaysWhenATaskStarts(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 100)...)
	wantUnknown(t, whyOf(t, store, "t000050"), "nobody asks for its action")
	noteFetched(t, pool, 300, 5)
	why := whyOf(t, store, "t000050")
	if s := wantStart(t, why, 50, 10.2); s.OrLater || math.Abs(s.PerMinute-300) > 10 {
		t.Errorf("its start is %+v", s)
	}
	wantText(t, why.String(), "\nstarts in about 10 s: 50 before it, ")

	// By priority and then by age, without those whose deadline has passed.
	insert(t, store, stint.Task{ID: "first", Action: "act", Priority: 1},
		stint.Task{ID: "late", Action: "act", Priority: 1, Deadline: time.Now().Add(time.Hour)},
		stint.Task{ID: "other", Action: "other"})
	for _, table := range []string{"tasks", "ready", "deadlines"} {
		exec(t, pool, "UPDATE stint."+table+` SET deadline = deadline - interval '2 h'
			WHERE deadline IS NOT NULL`)
	}
	wantStart(t, whyOf(t, store, "first"), 0, 0.2)
	wantStart(t, whyOf(t, store, "t000099"), 100, 20.2)
	own(t, store, 11)
	wantStart(t, whyOf(t, store, "t000099"), 89, 18)

	// One that is scheduled starts at its time, or when those that wait have been handed out.
	now := why.Now
	insert(t, store, stint.Task{ID: "soon", Action: "act", NotBefore: now.Add(9 * time.Second)},
		stint.Task{ID: "tomorrow", Action: "act", NotBefore: now.Add(24 * time.Hour)})
	wantStart(t, whyOf(t, store, "soon"), 90, 18)
	why = whyOf(t, store, "tomorrow")
	if s := why.Start; s == nil || !s.At.Equal(why.Task.NotBefore) || s.OrLater {
		t.Errorf("the start of a task for tomorrow is %+v", s)
	}
	for _, id := range []stint.TaskID{"t000000", "late"} { // in progress, overdue
		if s := whyOf(t, store, id).Start; s != nil {
			t.Errorf("the start of %q is %+v, want nil", id, s)
		}
	}

	// Without notes nobody knows.
	noteFetched(t, pool, 300, 0)
	wantUnknown(t, whyOf(t, store, "t000099"),
		"too few minutes tell how fast its action is handed out")
	why = whyOf(t, store, "soon")
	if s := why.Start; s == nil || !s.At.Equal(why.Task.NotBefore) || !s.OrLater {
		t.Errorf("the start of a scheduled task is %+v", s)
	}
	wantText(t, why.String(), " at the earliest: 90 before it")
}

// Limits and pauses bound it.
//
// Proves G340.
func TestExplain_SaysWhatLimitsLeaveOfAStart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ofKey := func(n int) []stint.Task {
		tasks := numbered("t", n)
		for i := range tasks {
			tasks[i].Key = "k"
		}
		return tasks
	}
	for name, test := range limitedStarts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			setLimits(t, store, test.limits)
			insert(t, store, ofKey(51)...)
			if test.own > 0 {
				own(t, store, test.own)
			}
			noteFetched(t, pool, 300, test.notes)
			test.check(t, whyOf(t, store, "t000050"))
			insert(t, store, stint.Task{
				ID: "later", Action: "act", Key: "k", NotBefore: time.Now().Add(time.Hour),
			})
			for _, id := range []stint.TaskID{"t000050", "later"} {
				wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "k"), nil)
				wantUnknown(t, whyOf(t, store, id), "its key is paused")
				wantErr(t, "Pause", store.Pause(t.Context(), "act"), nil)
				wantUnknown(t, whyOf(t, store, id), "its action is paused")
				wantErr(t, "Resume", store.Resume(t.Context(), "act"), nil)
				wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "act", "k"), nil)
			}
		})
	}
}

// A limitedStart is a task behind 50 others of its key, under limits, with what was noted in some
// minutes and how many were fetched.
type limitedStart struct {
	limits stint.Limits
	notes  int
	own    int
	check  func(t *testing.T, why stint.Explanation)
}

func limitedStarts() map[string]limitedStart {
	return map[string]limitedStart{
		"a rate below the pace": {
			stint.Limits{Rate: stint.Rate{Tasks: 60, Per: time.Minute, Burst: 60}},
			5, 10,
			func(t *testing.T, why stint.Explanation) {
				t.Helper()
				wantStart(t, why, 40, 41)
			},
		},
		"a rate alone": {
			stint.Limits{Rate: stint.Rate{Tasks: 60, Per: time.Minute, Burst: 60}},
			0, 10,
			func(t *testing.T, why stint.Explanation) {
				t.Helper()
				if s := wantStart(t, why, 40, 41); !s.OrLater {
					t.Errorf("the start is %+v, want the earliest", s)
				}
				wantText(t, why.String(), "at the earliest: 40 before it, 60 a minute at most")
			},
		},
		"the rate of the key": {
			stint.Limits{RatePerKey: stint.Rate{Tasks: 60, Per: time.Minute, Burst: 10}},
			5, 60,
			func(t *testing.T, why stint.Explanation) {
				t.Helper()
				wantStart(t, why, 40, 41)
			},
		},
		"the concurrency of the key": {
			stint.Limits{ConcurrencyPerKey: 2},
			5, 20,
			func(t *testing.T, why stint.Explanation) {
				t.Helper()
				wantUnknown(t, why, "it waits for the end of a task with its key")
			},
		},
		"strict order": {
			stint.Limits{Ordered: true},
			5, 20,
			func(t *testing.T, why stint.Explanation) {
				t.Helper()
				wantUnknown(t, why, "it waits for the end of a task with its key")
			},
		},
		"a budget": {
			stint.Limits{Rate: stint.Rate{Tasks: 60, Per: time.Minute, Burst: 60}, ByCost: true},
			5, 10,
			func(t *testing.T, why stint.Explanation) {
				t.Helper()
				wantUnknown(t, why, "its action has a budget, and nobody knows what those "+
					"before it will spend")
			},
		},
		"fair shares": {
			stint.Limits{Fair: true},
			5, 0,
			func(t *testing.T, why stint.Explanation) {
				t.Helper()
				wantUnknown(t, why, "the keys of its action take turns")
			},
		},
	}
}

// Counting is bounded, and it is said that there may be more.
//
// Proves G340.
func TestExplain_StopsCountingWhatComesFirst(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newUncheckedStore(t, stint.Options{})
	insert(t, store, numbered("t", 10_500)...)
	noteFetched(t, pool, 300, 5)
	if s := wantStart(t, whyOf(t, store, "t010400"), 10_400, 2080); s.BeforeOrMore || s.OrLater {
		t.Errorf("of some spans: %+v", s)
	}
	exec(t, pool, "DELETE FROM stint.ready")
	exec(t, pool, `INSERT INTO stint.ready (position, lo, hi, action, priority, tries)
		SELECT key, key, key, action, 0, 0 FROM stint.tasks`)
	why := whyOf(t, store, "t010400")
	if s := wantStart(t, why, 10_000, 2000); !s.BeforeOrMore || !s.OrLater {
		t.Errorf("of a row for each task: %+v", s)
	}
	wantText(t, why.String(), " min at the earliest: more than 10,000 before it, ") // 33 or 34
}

// While a queue is drained, at a pace that varies by a quarter, the estimates of nine tasks in ten
// are within 30 %. A minute passes by making what is noted older. The paces are the same in each
// run: some random ones are slow for so many minutes in a row that only 88 % are.
//
// Proves G340.
func TestExplain_EstimatesTheStartsOfAQueue(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const perMinute, varies, minutes, learned = 40, 10, 20, 3
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	random := rand.New(rand.NewPCG(1, 0))
	insert(t, store, numbered("t", perMinute*minutes)...)
	type guess struct{ made, at float64 } // in minutes
	guesses, started := map[stint.TaskID][]guess{}, map[stint.TaskID]float64{}
	fetched := 0
	for minute := 0; fetched < perMinute*minutes; minute++ {
		n := perMinute - varies + random.IntN(2*varies+1)
		owned := own(t, store, n)
		for i, task := range owned {
			started[task.ID] = float64(minute) + float64(i+1)/float64(n)
		}
		fetched += len(owned)
		triesNoted(t, pool, int64(fetched))
		aMinuteLater(t, pool)
		maintain(t, store)
		for i := fetched; minute >= learned && i < perMinute*minutes; i += 29 {
			id := numbered("t", i+1)[i].ID
			why := whyOf(t, store, id)
			if why.Start == nil || why.Start.At.IsZero() || why.Start.OrLater {
				t.Fatalf("in minute %d the start of %q is %+v", minute, id, why.Start)
			}
			made, left := float64(minute+1), why.Start.At.Sub(why.Now).Minutes()
			guesses[id] = append(guesses[id], guess{made, made + left})
		}
	}
	all, good := 0, 0
	for id, of := range guesses {
		for _, g := range of {
			all++
			if math.Abs(g.at-started[id]) <= 0.3*(started[id]-g.made) {
				good++
			}
		}
	}
	t.Logf("%d of %d estimates are within 30 %%", good, all)
	if all == 0 || 10*good < 9*all {
		t.Errorf("%d of %d estimates are within 30 %%, want 90 %% of them", good, all)
	}
}
