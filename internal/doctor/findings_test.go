package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// wantFindings checks severities, and a part of each text: "warning: 12 rows".
func wantFindings(t *testing.T, what string, got []Finding, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: found %+v, want %q", what, got, want)
		return
	}
	for i, f := range got {
		s, part, _ := strings.Cut(want[i], ": ")
		if string(f.Severity) != s || !strings.Contains(f.Text, part) || f.Topic == "" {
			t.Errorf("%s: found %+v, want %q", what, f, want[i])
		}
	}
}

// settings are those of a server where nothing is wrong, with some changed.
func settings(changed ...string) map[string]string {
	all := map[string]string{
		"autovacuum": "on", "autovacuum_freeze_max_age": "200000000",
		"autovacuum_multixact_freeze_max_age": "400000000", "fsync": "on",
		"full_page_writes": "on", "idle_in_transaction_session_timeout": "60000",
		"max_connections": "100", "superuser_reserved_connections": "3",
		"synchronous_commit": "on", "synchronous_standby_names": "", "track_counts": "on",
		"wal_writer_delay": "200", "zero_damaged_pages": "off",
	}
	for i := 0; i < len(changed); i += 2 {
		all[changed[i]] = changed[i+1]
	}
	return all
}

func TestServerFindings_NameWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server   server
		settings map[string]string
		want     []string
	}{
		"sound": {server{Version: 150000, Connections: 86, SeesAll: true}, settings(), nil},
		"old": {
			server{Version: 140012, VersionText: "14.12", SeesAll: true},
			settings(),
			[]string{"error: PostgreSQL 14.12, stint needs 15"},
		},
		"standby": {
			server{Version: 180000, Standby: true, SeesAll: true},
			settings(),
			[]string{"note: hot standby"},
		},
		"monitor": {
			server{Version: 180000, Role: "Mon"},
			settings(),
			[]string{`note: GRANT pg_read_all_stats TO "Mon"`},
		},
		"crowded": {
			server{Version: 180000, Connections: 88, SeesAll: true},
			settings(),
			[]string{"warning: 88 of 97 connections"},
		},
		"reserved": {
			server{Version: 180000, Connections: 83, SeesAll: true},
			settings("reserved_connections", "5"),
			[]string{"warning: 83 of 92 connections"},
		},
		"settings unknown": {server{Version: 180000, Connections: 5, SeesAll: true}, nil, nil},
	} {
		wantFindings(t, name, serverFindings(test.server, test.settings), test.want...)
	}
}

func TestSettingFindings_AreAboutDurabilityVacuumAndLocks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings map[string]string
		want     string
	}{
		"fsync":     {settings("fsync", "off"), "error: fsync is off: "},
		"Neon":      {settings("fsync", "off", "synchronous_standby_names", "walproposer"), ""},
		"pages":     {settings("full_page_writes", "off"), "warning: full_page_writes is off: "},
		"zero":      {settings("zero_damaged_pages", "on"), "error: zero_damaged_pages is on: "},
		"commit":    {settings("synchronous_commit", "off"), "warning: of the last 600ms"},
		"local":     {settings("synchronous_commit", "local"), ""},
		"apply":     {settings("synchronous_commit", "remote_apply"), ""},
		"no vacuum": {settings("autovacuum", "off"), "warning: autovacuum is off: "},
		"no counts": {settings("track_counts", "off"), "warning: track_counts is off: "},
		"idling": {
			settings("idle_in_transaction_session_timeout", "0"),
			"note: idle_in_transaction_session_timeout is 0: ",
		},
		"local, with standbys": {
			settings("synchronous_commit", "local", "synchronous_standby_names", "a"),
			"warning: synchronous_commit is local: ",
		},
	} {
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		wantFindings(t, name, settingFindings(test.settings), want...)
	}
	wantFindings(t, "roles", overrideFindings([]string{"a", "every role"}),
		"note: off for a,", "note: off for every role,")
}

func TestFunctionFindings_NameAnOldFunction(t *testing.T) {
	t.Parallel()
	wantFindings(t, "none", functionFindings(nil))
	for name, least := range map[string]int32{"add_task": 2, "finish_task": 1} {
		newest := functionVersion(name)
		if newest < least {
			t.Fatalf("the function %s of this release has version %d", name, newest)
		}
		wantFindings(t, "new", functionFindings([]function{{name, newest}, {name, newest + 1}}))
		wantFindings(t, "old", functionFindings([]function{{name, newest - 1}}),
			"warning: up to date with: stint migrate functions")
	}
}

func TestObjectFindings_CompareWithTheMigrations(t *testing.T) {
	t.Parallel()
	expected := []string{
		"column t.a", "constraint c", "index i", "table t", "unlogged table u",
	}
	whole := func(changed string, to ...object) []object {
		var objects []object
		for _, name := range expected {
			if name == changed {
				objects = append(objects, to...)
			} else {
				objects = append(objects, object{name, true})
			}
		}
		return append(objects, object{"index of somebody's own", true})
	}
	for name, test := range map[string]struct {
		objects []object
		want    []string
	}{
		"whole":     {whole(""), nil},
		"no index":  {whole("index i"), []string{`error: index i is missing from`}},
		"no column": {whole("column t.a"), []string{"error: column t.a is missing"}},
		"bad index": {
			whole("index i", object{"index i", false}),
			[]string{`error: CONCURRENTLY "s"."i"`},
		},
		"not validated": {
			whole("constraint c", object{"constraint c", false}),
			[]string{"warning: never"},
		},
		"logged": {whole("unlogged table u", object{"table u", true}), nil},
		"unlogged": {
			whole("table t", object{"unlogged table t", true}),
			[]string{`error: ALTER TABLE "s"."t" SET LOGGED`},
		},
		"no table": {
			[]object{{"constraint c", true}, {"index i", true}, {"unlogged table u", true}},
			[]string{"error: table t is missing"},
		},
	} {
		wantFindings(t, name, objectFindings("s", expected, test.objects), test.want...)
	}
}

func TestTableFindings_TellDeadRowsThatHurt(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Duration { return &d }
	for name, test := range map[string]struct {
		table table
		want  string
	}{
		"few":         {table{horizon{Name: "ready"}, 0, 9_999, nil, false}, ""},
		"less":        {table{horizon{Name: "ready"}, 50_001, 50_000, nil, false}, ""},
		"large table": {table{horizon{Name: "tasks"}, 0, 50_000, nil, false}, ""},
		"just begun": {
			table{horizon{Name: "ready"}, 7, 50_000, nil, false},
			"note: never vacuumed",
		},
		"busy": {
			table{horizon{Name: "leased"}, 7, 50_000, ago(time.Minute), false},
			"note: dead rows to 7 live ones, which slows fetches; it was vacuumed 1m00s ago",
		},
		"late": {
			table{horizon{Name: "leases"}, 7, 50_000, ago(20 * time.Minute), false},
			`warning: VACUUM "s"."leases"`,
		},
		"held up": {
			table{horizon{Name: "blocked"}, 7, 5_000_000, ago(time.Second), false},
			"warning: 5,000,000",
		},
		"grown": {
			table{horizon{Name: "edges"}, 4_000_000, 5_000_000, ago(time.Second), false},
			"warning: dead rows to 4,000,000 live ones, and grows by them",
		},
		"off": {table{horizon{Name: "tasks"}, 0, 0, nil, true}, `warning: "s"."tasks" RESET`},
	} {
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		wantFindings(t, name, tableFindings("s", test.table), want...)
	}
}

func TestPruningFindings_WarnWhenItIsLate(t *testing.T) {
	t.Parallel()
	wantFindings(t, "usual", pruningFindings(time.Minute))
	wantFindings(t, "late", pruningFindings(2*time.Hour), "warning: for up to 2h00m longer")
}

func TestHorizonFindings_WarnInTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		horizon horizon
		want    []string
	}{
		"young": {horizon{"t", 200_000_000, 400_000_000}, nil},
		"old": {
			horizon{"t", 300_000_000, 0},
			[]string{`warning: transaction in the table "t" is 300,000,000`},
		},
		"multixacts": {horizon{"t", 0, 600_000_000}, []string{"warning: multixact"}},
		"nearly ended": {
			horizon{"t", 1_700_000_000, 1_600_000_000},
			[]string{"error: tr", "error: mu"},
		},
	} {
		wantFindings(t, name, horizonFindings("table", test.horizon, settings()), test.want...)
		wantFindings(t, name+", settings unknown", horizonFindings("table", test.horizon, nil))
	}
}

func TestHolderFindings_NameWhoHoldsVacuumUp(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Duration { return &d }
	const kind = "process"
	for name, test := range map[string]struct {
		holder   holder
		settings map[string]string
		want     string
	}{
		"young": {holder{kind, "7", "", "", "active", ago(9 * time.Second), 9_999}, nil, ""},
		"long":  {holder{kind, "7", "", "", "active", ago(time.Minute), 0}, nil, "note: locked"},
		"many": {
			holder{kind, "7", "app", "ann", "active", ago(0), 10_000},
			nil,
			"note: process 7, app, ann, active, has been open for 0s: vacuum keeps what died in " +
				"the last 10,000 transactions; end it, or SELECT pg_terminate_backend(7)",
		},
		"hour": {holder{kind, "7", "", "", "active", ago(time.Hour), 1}, nil, "warning: last 1 tr"},
		"million": {
			holder{kind, "7", "", "", "active", ago(time.Second), 1_000_000},
			nil,
			"warning: 1,000,000",
		},
		"idle": {
			holder{kind, "7", "", "", "idle in transaction", ago(time.Hour), 1},
			settings("idle_in_transaction_session_timeout", "0"),
			"warning: set idle_in_transaction_session_timeout",
		},
		"idle, with a limit": {
			holder{kind, "7", "", "", "idle in transaction", ago(time.Hour), 1},
			settings(),
			"warning: terminate_backend(7)",
		},
		"prepared": {
			holder{"prepared transaction", "x", "", "ann", "", ago(time.Hour), 1},
			nil,
			"warning: ROLLBACK PREPARED",
		},
		"slot": {
			holder{"replication slot", "s", "", "", "inactive", nil, 1},
			nil,
			"warning: drop the slot",
		},
		"slot in use":       {holder{"replication slot", "s", "", "", "active", nil, 1}, nil, ""},
		"walsender, hidden": {holder{kind, "7", "\x1b", "", "", nil, 20_000}, nil, `note: "\x1b"`},
	} {
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		got := holderFindings(test.holder, test.settings)
		wantFindings(t, name, got, want...)
		if name == "idle, with a limit" && strings.Contains(got[0].Text, "and set") {
			t.Errorf("%s: %s", name, got[0].Text)
		}
	}
}

func TestMaintenanceFindings_TellWhatNobodySeesTo(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Duration { return &d }
	wantFindings(t, "overdue", overdueFindings([]overdue{
		{"lease", 1, time.Minute}, {"not before", 2, time.Hour}, {"deadline", 3, time.Hour},
	}), "warning: 1 task owned though", "warning: 2 tasks scheduled", "warning: 3 tasks past")
	wantFindings(t, "sessions", sessionFindings([]goneSession{
		{nil, []string{"a", "b"}, 1}, {ago(time.Second), nil, 2}, {ago(time.Minute), nil, 2},
	}), `note: the process of "a", "b" is gone, nobody has noticed yet, and 1 task is`,
		"note: 1s ago, and 2 tasks are", "warning: 1m00s ago")
	wantFindings(t, "actions", unservedFindings([]unserved{
		{"act", 1, time.Minute, nil},
		{"act", 7, time.Hour, ago(time.Hour)},
		{stint.External, 1, time.Hour, nil}, // waits for an answer from outside
	}), `note: 1 task is ready with the action "act", the oldest for 1m00s, and nobody`,
		"warning: asked for it for 1h00m")
}

func TestLimitFindings_TellWhatMayBeForgotten(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Duration { return &d }
	const hour, days = time.Hour, 72 * time.Hour
	key := "k"
	for _, test := range []struct {
		limited limited
		want    []string
	}{
		{limited{Action: "act", Limited: true, Set: days, Asked: ago(hour)}, nil},
		{limited{Action: "act", Limited: true, Set: hour}, nil},
		{limited{Action: "act", Paused: ago(hour), PausedKeys: 1, KeysPaused: ago(hour)}, nil},
		{
			limited{Action: "act", Limited: true, Set: days},
			[]string{"note: stint limit act --none"},
		},
		{limited{Action: "act", Paused: ago(days)}, []string{"note: for 3d: if that"}},
		{
			limited{Action: "act", PausedKeys: 2, KeysPaused: ago(days)},
			[]string{`note: 2 keys of the action "act" are paused, the first for 3d`},
		},
		{limited{Action: "act", ParkedKey: &key, Parked: 99_999}, nil},
		{
			limited{Action: "act", ParkedKey: &key, Parked: 100_000},
			[]string{
				`note: 100,000 tasks are parked under the key "k" of the action "act": its key is`,
			},
		},
	} {
		wantFindings(t, "limits", limitFindings(test.limited), test.want...)
	}
}

func TestClockFindings_AreRightToHalfARoundTrip(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(before, trip, database time.Duration) reading {
		return reading{start.Add(before), trip, start.Add(database)}
	}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		readings []reading
		want     []string
	}{
		"alike":        {[]reading{at(0, 10*ms, 5*ms), at(20*ms, 10*ms, 25*ms)}, nil},
		"slow network": {[]reading{at(0, 4*time.Second, 3900*ms)}, nil},
		"nearly alike": {[]reading{at(0, 2*ms, -999*ms)}, nil},
		"behind":       {[]reading{at(0, 2*ms, -2999*ms)}, []string{"note: is 3s behind this"}},
		"ahead": {
			[]reading{at(0, 0, 5*time.Second)},
			[]string{"note: is 5s ahead of this"},
		},
		"far ahead": {[]reading{at(0, 0, time.Hour)}, []string{"warning: 1h0m0s ahead of"}},
		"best trip": {
			[]reading{at(0, 9*time.Second, 9*time.Second), at(9*time.Second, 0, 9*time.Second)},
			nil,
		},
		"went back": {
			[]reading{at(0, 0, 0), at(ms, 0, -5*ms)},
			[]string{"warning: back by 5ms"},
		},
		"back and apart": {
			[]reading{at(0, 0, 2*time.Second), at(0, 0, 1500*ms)},
			[]string{"warning: back", "note: 2s"},
		},
	} {
		wantFindings(t, name, clockFindings(test.readings), test.want...)
	}
	wantFindings(t, "past", futureFindings(-time.Hour))
	wantFindings(t, "future", futureFindings(time.Hour), "warning: from 1h00m in the future")
	wantFindings(t, "no pooler", poolerFindings(poolingNone))
	wantFindings(t, "pooler", poolerFindings(poolingSession), "note: stands between")
	wantFindings(t, "pooler", poolerFindings(poolingTransaction), "note: each transaction")
	wantFindings(t, "unseen", []Finding{unseen("actions", "no"), unseen("consistency", "no")},
		"note: actions could not", "warning: whether the tables agree could not")
}
