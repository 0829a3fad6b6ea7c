//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// limits of action "mail", as the store has them.
func (d *database) limits(t *testing.T) stint.ActionLimits {
	t.Helper()
	list, err := d.store.ListLimits(t.Context(), "mail")
	if err != nil || len(list) != 1 {
		t.Fatalf("ListLimits = %+v, %v", list, err)
	}
	return list[0]
}

func TestLimit_ChangesTheLimitsWhoseFlagsAreGiven(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	limit := func(want stint.Limits, flags ...string) {
		t.Helper()
		db.run(t, "", append([]string{"limit", "mail"}, flags...)...).wantExit(t, 0).
			wantOutput(t, "set the limits of mail\n")
		if got := db.limits(t).Limits; got != want {
			t.Errorf("stint limit %q leaves %+v, want %+v", flags, got, want)
		}
	}
	want := stint.Limits{
		Concurrency: 40, ConcurrencyPerKey: 1, Fair: true,
		Rate:       stint.Rate{Tasks: 1000, Per: time.Second, Burst: 1000},
		RatePerKey: stint.Rate{Tasks: 5, Per: time.Minute, Burst: 3},
	}
	limit(want, "--concurrency", "40", "--per-key", "1", "--rate", "1000/s", "--rate-per-key",
		"5/m", "--burst-per-key", "3", "--fair")
	want.Concurrency, want.Rate.Burst = 50, 7
	limit(want, "--concurrency", "50", "--burst", "7")
	want.Rate, want.RatePerKey = stint.Rate{Tasks: 10, Per: 15 * time.Minute, Burst: 1},
		stint.Rate{}
	limit(want, "--rate", "10/15m", "--rate-per-key", "0")
	want.FairGroup = "tenants"
	limit(want, "--fair-group", "tenants")
	want.ConcurrencyPerKey, want.Fair, want.FairGroup = 0, false, ""
	limit(want, "--per-key", "0", "--fair=false")
	want.Ordered, want.ConcurrencyPerKey = true, 1
	limit(want, "--ordered")
	limit(want, "--ordered", "--per-key", "1")
	if r := db.run(t, "", "limits").wantExit(t, 0); !strings.Contains(r.stdout, "1, ordered") {
		t.Errorf("stint limits: %s", r.stdout)
	}
	db.run(t, "", "limit", "mail", "--fair").wantExit(t, 2, "--fair must not be set with --ordered")
	want.Ordered, want.ConcurrencyPerKey = false, 3
	limit(want, "--ordered=false", "--per-key", "3")
	want.Ordered, want.ConcurrencyPerKey = true, 1
	limit(want, "--ordered")
	want.Ordered, want.ConcurrencyPerKey = false, 0
	limit(want, "--ordered=false")
	want.Fair, want.FairGroup = true, "others"
	limit(want, "--fair-group", "others")
	want.FairGroup = ""
	limit(want, "--fair-group", "")
	db.run(t, "", "limit", "mail", "--none", "--json").wantExit(t, 0).
		wantOutput(t, `{"action":"mail"}`)
	db.run(t, "", "limits").wantExit(t, 0, "no limits")
	db.run(t, "", "limit", "mail", "--rate", "2/h", "--json").wantExit(t, 0).
		wantOutput(t, `{"action":"mail","limits":{"rate":{"tasks":2,"per_seconds":3600,`+
			`"burst":1},"fair":false}}`)
	db.run(t, "", "limit", "mail", "--rate", "0", "--ordered", "--json").wantExit(t, 0).
		wantOutput(t, `{"action":"mail","limits":{"per_key":1,"fair":false,"ordered":true}}`)
}

// A budget is set, filled and explained by the command.
// Proves G342.
func TestLimit_SetsABudget(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	prints := func(command string, parts ...string) {
		t.Helper()
		r := db.run(t, "", strings.Fields(command)...).wantExit(t, 0)
		for _, part := range parts {
			if !strings.Contains(r.stdout, part) {
				t.Errorf("stint %s lacks %q:\n%s", command, part, r.stdout)
			}
		}
	}
	db.run(t, "", "limit", "mail", "--by-cost").
		wantExit(t, 2, "--by-cost needs a rate, or --fair")
	prints("limit mail --rate 60/h --burst 90 --by-cost")
	prints("limits", "60/h, burst 90, by cost")
	prints("limits --json", `"by_cost":true`)
	db.run(t, "", "insert", "--action", "mail", "--cost", "-1").
		wantExit(t, 2, "Task.Cost", "must be 0")
	for i, cost := range []string{"150", "30"} {
		prints(fmt.Sprintf("insert --action mail --id m%d --cost %s", i, cost))
	}
	prints("show m0", "cost", "150")
	prints("show m0 --json", `"cost":150`)
	prints("explain m1", "nobody asks for", "\nleft of the budget of \"mail\": 90\n")
	prints("explain m1 --json", `"tokens":90`)
	owned, err := db.store.OwnTasks(t.Context(), "w", 9, []string{"mail"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	prints("explain m1", `the budget of "mail" is spent until`, ", and owes 59\n")
	prints("limits", "next in 1h0")
}

func TestLimit_RefusesBadInput(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	for line, want := range map[string]string{
		"limit":                                  "expected one action, got none",
		"limit a b --fair":                       "expected one action, got 2",
		"limit mail":                             "to remove all of them: --none",
		"limit mail --schema other":              "stint limits --schema other; to remove",
		"limit mail --none --fair":               "--none excludes other limits",
		"limit mail --rate 5":                    "such as 1000/s",
		"limit mail --rate x/s":                  "such as 1000/s",
		"limit mail --rate -1/s":                 "such as 1000/s",
		"limit mail --rate 1/week":               "such as 1000/s",
		"limit mail --burst 5":                   "--burst needs --rate",
		"limit mail --burst-per-key 5":           "--burst-per-key needs --rate-per-key",
		"limit mail --fair=false --fair-group g": "--fair-group needs --fair",
		"limit mail --concurrency -1":            "--concurrency must be",
		"limit mail --per-key 1001":              "--per-key",
		"limit stint.Spontaneous --fair":         "action",
		"weight mail":                            "such as customer-7=3",
		"weight mail key":                        "such as customer-7=3",
		"weight mail key=0":                      "must be 1 to 1000",
		"weight mail key=4294967297":             "must be 1 to 1000",
		"weight mail a=3 a=4":                    "comes twice",
		"pause":                                  "expected actions, got none",
		"resume":                                 "expected actions, got none",
		"pause a b --key k":                      "--key is about one action, got 2",
		"pause stint.External":                   "action",
		"limits stint.External " + "\xff":        "UTF-8",
		"resume mail --key " + "\xff":            "UTF-8",
		"pause mail --topology static:a=nowhere": "",
	} {
		db.run(t, "", strings.Split(line, " ")...).wantExit(t, 2, want)
	}
	db.run(t, "", "limits").wantExit(t, 0, "no limits")
}

func TestLimits_ListsWhatIsLimitedAndPaused(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "mail"}, stint.Task{ID: "b", Action: "mail"})
	db.own(t, "mail")
	db.run(t, "", "limit", "mail", "--concurrency", "40", "--per-key", "2", "--rate", "5/m",
		"--rate-per-key", "1/90s", "--fair").wantExit(t, 0)
	db.run(t, "", "weight", "mail", "c=7=3", "d=2", "--json").wantExit(t, 0).
		wantOutput(t, `{"action":"mail","weights":{"c=7":3,"d":2}}`)
	db.run(t, "", "weight", "mail", "d=1").wantExit(t, 0).wantOutput(t, "set 1 weight\n")
	db.run(t, "", "pause", "report", "mail").wantExit(t, 0).wantOutput(t, "paused 2 actions\n")
	db.run(t, "", "pause", "mail", "--key", "k", "--key", "l", "--json").wantExit(t, 0).
		wantOutput(t, `{"action":"mail","paused_keys":["k","l"]}`)
	r := db.run(t, "", "limits").wantExit(t, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	for i, want := range []string{
		"ACTION IN PROGRESS PER KEY RATE TOKENS RATE PER KEY FAIR PARKED PAUSED KEYS",
		"mail 1 of 40 2 5/m, burst 1 1 1/1m30s, burst 1 yes 0 ",
		"report 0 ",
	} {
		if i >= len(lines) || !strings.HasPrefix(strings.Join(strings.Fields(lines[i]), " "),
			strings.TrimSpace(want)) {
			t.Errorf("line %d is not %q in\n%s", i, want, r.stdout)
		}
	}
	r.wantOutput(t, "2 paused, 1 with a weight")
	var got struct {
		Action  string
		Limits  struct{ Concurrency int }
		Tokens  float64
		Weights map[string]int
		Paused  map[string]time.Time `json:"paused_keys"`
		Since   time.Time            `json:"paused_since"`
		Busy    int                  `json:"in_progress"`
	}
	db.run(t, "", "limits", "mail", "--json").wantExit(t, 0).decode(t, &got)
	if got.Action != "mail" || got.Limits.Concurrency != 40 || got.Tokens != 1 ||
		got.Weights["c=7"] != 3 || len(got.Paused) != 2 || got.Since.IsZero() || got.Busy != 1 {
		t.Errorf("stint limits --json = %+v", got)
	}
	db.run(t, "", "limits", "mail").wantExit(t, 0).
		wantOutput(t, "mail: key k: paused ", "mail: key c=7: weight 3\n")
	db.run(t, "", "resume", "mail", "--key", "k", "--key", "k", "--key", "idle").
		wantExit(t, 0, "idle was not paused").wantOutput(t, "resumed 1 key of mail\n")
	db.run(t, "", "resume", "idle").wantExit(t, 0, "idle was not paused").
		wantOutput(t, "resumed 0 actions\n")
	db.run(t, "", "resume", "mail", "--key", "k", "--json").wantExit(t, 0, "k was not paused").
		wantOutput(t, `{"action":"mail","resumed_keys":[]}`)
	db.run(t, "", "resume", "mail", "idle", "report", "--json").wantExit(t, 0).
		wantOutput(t, `{"resumed":["mail","report"]}`)
	if left := db.limits(t); !left.PausedSince.IsZero() || len(left.PausedKeys) != 1 {
		t.Errorf("after resume, ListLimits = %+v", left)
	}
}

func TestLimit_SaysThatOlderStoresAreConnected(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.exec(t, "INSERT INTO stint.sessions (id, grace, watches, topics, schema_version) "+
		"VALUES (4711, '1 h', false, '{}', 1)")
	db.run(t, "", "limit", "mail", "--fair").wantExit(t, 5, "replace their processes first")
	db.run(t, "", "pause", "mail").wantExit(t, 5, "replace their processes first")
	db.run(t, "", "resume", "mail").wantExit(t, 0)
}

func TestLimits_SaysWhenTheNextTokenComes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "mail"})
	db.run(t, "", "limit", "mail", "--rate", "1/2h").wantExit(t, 0)
	db.own(t, "mail")
	db.run(t, "", "limits").wantExit(t, 0).wantOutput(t, "next in 1h59m")
}

// A table has room for some keys; all of them are in the documents.
func TestLimits_ListsAHundredKeys(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	keys, weights := make([]string, 102), map[string]int{}
	for i := range keys {
		keys[i] = fmt.Sprintf("k%03d", i)
		weights[keys[i]] = 2
	}
	if err := db.store.PauseKeys(t.Context(), "mail", keys...); err != nil {
		t.Fatal(err)
	}
	if err := db.store.SetWeights(t.Context(), "mail", weights); err != nil {
		t.Fatal(err)
	}
	r := db.run(t, "", "limits", "mail").wantExit(t, 0)
	r.wantOutput(t,
		"key k099: paused", "mail: and 2 more paused: --json",
		"key k099: weight 2", "mail: and 2 more with a weight: --json")
	if strings.Contains(r.stdout, "k100") {
		t.Errorf("more than a hundred keys in\n%s", r.stdout)
	}
	r = db.run(t, "", "limits", "mail", "--json").wantExit(t, 0)
	if n := strings.Count(r.stdout, `"k101"`); n != 2 {
		t.Errorf("the last key is there %d times in %s", n, r.stdout)
	}
}
